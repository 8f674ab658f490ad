-- Answers the time and every sample. Samples of nodes that have said nothing
-- for long are taken away.
-- KEYS[1] the samples; ARGV how long they are kept, in microseconds
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local all = redis.call('HGETALL', KEYS[1])
local out = { string.format('%.0f', now) }
for i = 1, #all, 2 do
  local at = tonumber(string.match(all[i + 1], '^(%d+) '))
  if at == nil or now - at > tonumber(ARGV[1]) then
    redis.call('HDEL', KEYS[1], all[i])
  end
  out[#out + 1] = all[i]
  out[#out + 1] = all[i + 1]
end
return out
