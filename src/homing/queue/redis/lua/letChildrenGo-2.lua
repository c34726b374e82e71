--[[
  letChildrenGo: a job that is done whatever its children come to has none any more, so that it can be completed.
  KEYS: the job, its lock
  ARGV: token of the lease
  Result: 1, or 0 when the lease is not held
  The children run on by themselves: their end finds nothing to count it in.
]]
if redis.call("GET", KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call("DEL", KEYS[1] .. ":dependencies", KEYS[1] .. ":unsuccessful")
return 1
