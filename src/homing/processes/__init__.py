"""The processes that people start: a worker, a relay, or both in one."""
