--[[
  pauseKey: no job with this key starts for a while.
  KEYS: the key's state
  ARGV: now, in ms; the pause, in ms; how long what is past is kept, in ms
  Result: how long nothing starts, in ms
  A pause that ends later stays.
]]
local ends = tonumber(ARGV[1]) + tonumber(ARGV[2])
local paused = math.max(ends, tonumber(redis.call("HGET", KEYS[1], "paused") or 0))
redis.call("HSET", KEYS[1], "paused", paused)
local left = paused - tonumber(ARGV[1])
redis.call("PEXPIRE", KEYS[1], math.max(left + tonumber(ARGV[3]), redis.call("PTTL", KEYS[1])))
return left
