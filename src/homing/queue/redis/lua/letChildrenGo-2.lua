--[[
  letChildrenGo: a job that is done whatever its children come to has none any more, so that it can be completed.
  KEYS: the job, its lock
  ARGV: token of the lease
  Result: 1, or what finishing a job answers where nobody has it (-2) or somebody else has it (-6)
  The children run on by themselves: their end finds nothing to count it in.
]]
local holder = redis.call("GET", KEYS[2])
if not holder then
  return -2
elseif holder ~= ARGV[1] then
  return -6
end
redis.call("DEL", KEYS[1] .. ":dependencies", KEYS[1] .. ":unsuccessful")
return 1
