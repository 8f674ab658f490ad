-- Keeps slots held: KEYS[1] is an account's set of slots. ARGV: how long they
-- stay without a sign of life (ms), then the ids of the requests. A Redis that
-- lost them learns them anew.
local clock = redis.call('TIME')
local until_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) + tonumber(ARGV[1])
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], until_ms, ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[1]))
return 1
