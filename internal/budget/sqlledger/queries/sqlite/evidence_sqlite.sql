-- name: PutInference :exec
-- A record that came before is replaced only by one that got at least as far.
INSERT INTO inference (
  request_id, client_request_id, tenant, key_id, owner, model, version, reservation_id, endpoint_uid, object_uid,
  path, stream, status, outcome, error, received_at, queued_us, sent_at, first_byte_at, first_content_at,
  last_byte_at, done_at, prompt_tokens, completion_tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (request_id) DO UPDATE SET
  endpoint_uid = excluded.endpoint_uid, object_uid = excluded.object_uid, status = excluded.status,
  outcome = excluded.outcome, error = excluded.error, queued_us = excluded.queued_us, sent_at = excluded.sent_at,
  first_byte_at = excluded.first_byte_at, first_content_at = excluded.first_content_at,
  last_byte_at = excluded.last_byte_at, done_at = excluded.done_at,
  prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens
WHERE COALESCE(excluded.last_byte_at, 0) >= COALESCE(inference.last_byte_at, 0);

-- name: PutChunks :exec
INSERT OR REPLACE INTO first_chunk (
  tenant, id,
  first_request_id, first_endpoint_uid, first_caller, first_sent_at, first_byte_at, first_at, first_done_at,
  latest_request_id, latest_endpoint_uid, latest_caller, latest_sent_at, latest_byte_at, latest_at, latest_done_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
