"""The `homing` command."""
