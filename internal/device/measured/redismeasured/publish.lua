-- Writes one node's sample under the time at which it was taken, in
-- microseconds by the clock of Redis.
-- KEYS[1] the samples; ARGV node, age in microseconds, used MiB by uuid (JSON)
local now = redis.call('TIME')
local at = now[1] * 1000000 + now[2] - ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', at) .. ' ' .. ARGV[3])
return 1
