--[[
  takeParked: take some parked jobs of one kind off the notes, to be promoted.
  KEYS: delayed (BullMQ's set of delayed jobs), the parked jobs of the kind
  ARGV: the most jobs
  Result: how many notes were taken, and the ids of those that are still delayed as they were when they were parked
  A job whose notes are taken and that is not promoted runs when its time comes, like any other delayed job.
]]
local notes = redis.call("ZRANGE", KEYS[2], 0, tonumber(ARGV[1]) - 1)
local parked = {}
for _, id in ipairs(notes) do
  local score = redis.call("ZSCORE", KEYS[1], id)
  if score and score == redis.call("ZSCORE", KEYS[2], id) then
    parked[#parked + 1] = id
  end
end
if #notes > 0 then
  redis.call("ZREMRANGEBYRANK", KEYS[2], 0, #notes - 1)
end
return {#notes, parked}
