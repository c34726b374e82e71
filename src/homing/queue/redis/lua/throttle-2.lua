--[[
  throttle: no worker starts a job of the queue for a while.
  KEYS: limiter (BullMQ's counter of starts), meta (the queue's settings)
  ARGV: pause in ms; max and duration (ms) for a queue whose settings name none; the count that no max exceeds
  Result: how long nothing starts, in ms
  A worker looks at the counter only on a queue with a max, so a queue without one gets one here. A full counter that lasts
  longer stays: a shorter pause never ends a longer one, nor opens a window whose permits are used up.
]]
redis.call("HSETNX", KEYS[2], "max", ARGV[2])
redis.call("HSETNX", KEYS[2], "duration", ARGV[3])
local pause = tonumber(ARGV[1])
local max = tonumber(redis.call("HGET", KEYS[2], "max"))
local starts = tonumber(redis.call("GET", KEYS[1]) or 0)
local left = redis.call("PTTL", KEYS[1])
if max and starts and starts >= max and left >= pause then
  return left
end
redis.call("SET", KEYS[1], ARGV[4], "PX", pause)
return pause
