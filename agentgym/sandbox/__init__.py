"""Where actions happen: one async protocol, its backends, images, and the reaper."""
