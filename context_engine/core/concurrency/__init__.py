"""What runs beside the caller, and what survives a fork of its process."""
