"""Where bytes are on a device."""
