"""Waiting and leased: what jobs are, what an engine must do, and the engines."""
