--[[
  refundStart: a run that is given back has not started.
  KEYS: job, its lock
  ARGV: token of the lease; how often the job has started without this time
  Result: 1, or 0 when the lease is not held
  Setting the number, and not counting down, so that asking again changes nothing.
]]
if redis.call("GET", KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call("HSET", KEYS[1], "ats", ARGV[2])
return 1
