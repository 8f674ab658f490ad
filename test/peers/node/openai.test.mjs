// The official openai package against a running ModelDock: OPENAI_BASE_URL and
// OPENAI_API_KEY say where and as whom. "tiny" answers, "broken" cannot load.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import OpenAI from 'openai'

const client = new OpenAI({ maxRetries: 0 })
const messages = [{ role: 'user', content: 'hello' }]

test('lists models', async () => {
  const ids = []
  for await (const model of client.models.list()) ids.push(model.id)
  assert.ok(ids.some((id) => id === 'tiny' || id === 'team-a/tiny'), `tiny is not in ${ids}`)
})

test('streams to the end, as the whole answer says it', async () => {
  const whole = await client.chat.completions.create({ model: 'tiny', messages })
  const stream = await client.chat.completions.create({ model: 'tiny', messages, stream: true })
  let text = ''
  let chunks = 0
  let finish = null
  for await (const chunk of stream) {
    chunks++
    text += chunk.choices[0]?.delta?.content ?? ''
    finish = chunk.choices[0]?.finish_reason ?? finish
  }
  assert.ok(chunks > 3)
  assert.equal(finish, 'stop')
  assert.equal(text, whole.choices[0].message.content)
})

test('the streaming helper and its usage', async () => {
  const runner = client.chat.completions.stream({ model: 'tiny', messages, stream_options: { include_usage: true } })
  const final = await runner.finalChatCompletion()
  assert.ok(final.choices[0].message.content.length > 0)
  assert.ok(final.usage.completion_tokens > 0)
})

test('abort ends the stream', async () => {
  const stream = await client.chat.completions.create({ model: 'tiny', messages, stream: true })
  for await (const _ of stream) stream.controller.abort()
  assert.ok(stream.controller.signal.aborted)
})

test('embeddings', async () => {
  const answer = await client.embeddings.create({ model: 'tiny', input: 'hello', encoding_format: 'float' })
  assert.ok(answer.data[0].embedding.length > 0)
})

const failing = (promise, type, status) =>
  assert.rejects(promise, (e) => {
    assert.ok(e instanceof type, `${e.constructor.name}, want ${type.name}: ${e.message}`)
    assert.equal(e.status, status)
    assert.ok(e.requestID, 'no request id')
    assert.ok(!/no body/.test(e.message), e.message)
    return true
  })

test('400 is a BadRequestError', () => failing(client.chat.completions.create({ model: 'tiny', messages: [] }), OpenAI.BadRequestError, 400))
test('401 is an AuthenticationError', () =>
  failing(new OpenAI({ apiKey: 'mdk_nobody_nothingnothingnothing', maxRetries: 0 }).chat.completions.create({ model: 'tiny', messages }), OpenAI.AuthenticationError, 401))
test('404 is a NotFoundError', () => failing(client.chat.completions.create({ model: 'nothing', messages }), OpenAI.NotFoundError, 404))
test('503 is an InternalServerError', () => failing(client.chat.completions.create({ model: 'broken', messages }), OpenAI.InternalServerError, 503))
