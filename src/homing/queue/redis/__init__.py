"""Queues on Redis or Valkey, in BullMQ's own data layout."""

from homing.config.redis_url import RedisUrl, parse_url
from homing.queue.redis.engine import RedisEngine

__all__ = ["RedisEngine", "RedisUrl", "parse_url"]
