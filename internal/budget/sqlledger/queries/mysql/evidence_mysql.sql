-- name: PutInference :exec
-- A record that came before is replaced only by one that got at least as far.
-- SET runs from left to right: last_byte_at, which decides, comes last.
INSERT INTO inference (
  request_id, client_request_id, tenant, key_id, owner, model, version, reservation_id, endpoint_uid, object_uid,
  path, stream, status, outcome, error, received_at, queued_us, sent_at, first_byte_at, first_content_at,
  last_byte_at, done_at, prompt_tokens, completion_tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE
  endpoint_uid = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(endpoint_uid), endpoint_uid),
  object_uid = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(object_uid), object_uid),
  status = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(status), status),
  outcome = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(outcome), outcome),
  error = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(error), error),
  queued_us = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(queued_us), queued_us),
  sent_at = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(sent_at), sent_at),
  first_byte_at = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(first_byte_at), first_byte_at),
  first_content_at = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(first_content_at), first_content_at),
  done_at = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(done_at), done_at),
  prompt_tokens = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(prompt_tokens), prompt_tokens),
  completion_tokens = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(completion_tokens), completion_tokens),
  last_byte_at = IF(COALESCE(VALUES(last_byte_at), 0) >= COALESCE(last_byte_at, 0), VALUES(last_byte_at), last_byte_at);

-- name: PutChunks :exec
REPLACE INTO first_chunk (
  tenant, id,
  first_request_id, first_endpoint_uid, first_caller, first_sent_at, first_byte_at, first_at, first_done_at,
  latest_request_id, latest_endpoint_uid, latest_caller, latest_sent_at, latest_byte_at, latest_at, latest_done_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
