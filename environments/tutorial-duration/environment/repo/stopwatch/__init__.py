"""A small stopwatch: lap times and how to show them."""

from stopwatch.format import format_duration
from stopwatch.laps import Laps

__all__ = ["Laps", "format_duration"]
