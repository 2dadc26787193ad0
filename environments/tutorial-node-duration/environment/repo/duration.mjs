// Durations as texts: hours, minutes and seconds, each optional, in this order.
const PATTERN = /^(?:(\d+)h)(?:(\d+)m)?(?:(\d+)s)?$/;

export function parseDuration(text) {
  const match = PATTERN.exec(text);
  if (match === null || text === "") {
    throw new RangeError(`not a duration: ${JSON.stringify(text)}`);
  }
  const [hours, minutes, seconds] = match.slice(1).map((digits) => Number(digits ?? 0));
  return hours * 3600 + minutes * 60 + seconds;
}
