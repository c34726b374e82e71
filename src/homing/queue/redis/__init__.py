"""Queues on Redis or Valkey, in BullMQ's own data layout."""

from homing.queue.redis.engine import RedisEngine
from homing.queue.redis.url import RedisUrl, parse_url

__all__ = ["RedisEngine", "RedisUrl", "parse_url"]
