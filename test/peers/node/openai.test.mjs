// The official openai package against a running ModelDock: OPENAI_BASE_URL and
// OPENAI_API_KEY say where and as whom. "tiny" answers, "broken" cannot load.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import OpenAI, { toFile } from 'openai'

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

test('a tool is called, whole and streamed', async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }]
  const ask = { model: 'tiny', messages, tools, tool_choice: 'required' }
  const whole = await client.chat.completions.create(ask)
  assert.equal(whole.choices[0].finish_reason, 'tool_calls')
  const { name, arguments: text } = whole.choices[0].message.tool_calls[0].function
  assert.equal(name, 'weather')
  assert.match(JSON.parse(text).text, /hello/)
  const final = await client.chat.completions.stream(ask).finalChatCompletion()
  assert.equal(final.choices[0].message.tool_calls[0].function.arguments, text)
})

test('usage of a stream comes only if it is asked for', async () => {
  for (const include_usage of [true, false]) {
    let usage = null
    for await (const chunk of await client.chat.completions.create({ model: 'tiny', messages, stream: true, stream_options: { include_usage } })) usage = chunk.usage ?? usage
    assert.equal(usage !== null, include_usage)
  }
})

test('responses, whole and streamed', async () => {
  const whole = await client.responses.create({ model: 'tiny', input: 'hello' })
  assert.ok(whole.output_text.length > 0)
  assert.ok(whole.usage.output_tokens > 0)
  const stream = client.responses.stream({ model: 'tiny', input: 'hello' })
  let deltas = ''
  stream.on('response.output_text.delta', (event) => (deltas += event.delta))
  const final = await stream.finalResponse()
  assert.equal(final.status, 'completed')
  assert.equal(final.output_text, whole.output_text)
  assert.equal(deltas, whole.output_text)
})

test('transcriptions, whole, as text and streamed', async () => {
  const file = () => toFile(Buffer.from('RIFF and some sound'), 'a.wav')
  const whole = await client.audio.transcriptions.create({ model: 'tiny', file: await file() })
  assert.ok(whole.text.length > 0)
  const text = await client.audio.transcriptions.create({ model: 'tiny', file: await file(), response_format: 'text' })
  assert.equal(text.trim(), whole.text)
  let streamed = ''
  for await (const event of await client.audio.transcriptions.create({ model: 'tiny', file: await file(), stream: true })) {
    if (event.type === 'transcript.text.delta') streamed += event.delta
  }
  assert.equal(streamed, whole.text)
})

test('one model', async () => {
  const model = await client.models.retrieve('tiny')
  assert.equal(model.id, 'tiny')
  assert.equal(model.object, 'model')
  await failing(client.models.retrieve('nothing'), OpenAI.NotFoundError, 404)
})

test('reranking through the client as it is', async () => {
  const answer = await client.post('/rerank', { body: { model: 'tiny', query: 'cold rain', documents: ['sun', 'cold rain today'], top_n: 1 } })
  assert.equal(answer.results[0].index, 1)
})

test('retries what says so, and not what does not', async () => {
  let calls = 0
  const counting = new OpenAI({ maxRetries: 1, fetch: (...args) => (calls++, fetch(...args)) })
  await assert.rejects(counting.chat.completions.create({ model: 'nothing', messages }), OpenAI.NotFoundError)
  assert.equal(calls, 1)
})

test('a time-out is a time-out', () =>
  assert.rejects(new OpenAI({ maxRetries: 0, timeout: 1 }).chat.completions.create({ model: 'tiny', messages }), OpenAI.APIConnectionTimeoutError))

test('abort before the answer', async () => {
  const abort = new AbortController()
  const answer = client.chat.completions.create({ model: 'tiny', messages }, { signal: abort.signal })
  abort.abort()
  await assert.rejects(answer, OpenAI.APIUserAbortError)
})

test('embeddings in the form that the client asks for by itself', async () => {
  const packed = await client.embeddings.create({ model: 'tiny', input: 'hello' })
  const plain = await client.embeddings.create({ model: 'tiny', input: 'hello', encoding_format: 'float' })
  assert.equal(packed.data[0].embedding.length, plain.data[0].embedding.length)
  for (const [i, value] of packed.data[0].embedding.entries()) assert.ok(Math.abs(value - plain.data[0].embedding[i]) < 1e-6)
})

test("the streaming helper's events", async () => {
  const runner = client.chat.completions.stream({ model: 'tiny', messages, stream_options: { include_usage: true } })
  let deltas = ''
  let said = ''
  runner.on('content', (delta, snapshot) => {
    deltas += delta
    assert.equal(snapshot, deltas)
  })
  runner.on('finalContent', (text) => (said = text))
  const usage = await runner.totalUsage()
  await runner.done()
  assert.equal(await runner.finalContent(), deltas)
  assert.equal(said, deltas)
  assert.ok(usage.completion_tokens > 0)
})

test('the streaming helper is aborted', async () => {
  const runner = client.chat.completions.stream({ model: 'tiny', messages })
  runner.on('content', () => runner.abort())
  await assert.rejects(runner.done(), OpenAI.APIUserAbortError)
  assert.ok(runner.aborted)
})

test('the helper that runs tools', async () => {
  const asked = []
  const weather = { name: 'weather', parse: JSON.parse, parameters: { type: 'object', properties: { text: { type: 'string' } } }, function: ({ text }) => (asked.push(text), 'sunny') }
  const tools = [{ type: 'function', function: { ...weather, description: 'the weather' } }]
  const choice = { type: 'function', function: { name: 'weather' } }
  for (const stream of [false, true]) {
    const runner = client.chat.completions.runTools({ model: 'tiny', messages, tools, tool_choice: choice, stream })
    await runner.done()
    assert.equal(await runner.finalFunctionToolCallResult(), 'sunny')
  }
  assert.equal(asked.length, 2)
  assert.match(asked[0], /hello/)
})

test('a stream that breaks is an error, and keeps what came', async () => {
  for (const [model, words] of [
    ['cuts', /stopped before its answer was complete/],
    ['fails', /simulated failure in the middle/],
  ]) {
    let text = ''
    const stream = await client.chat.completions.create({ model, messages, stream: true })
    const reading = (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? ''
    })()
    await assert.rejects(reading, (e) => e instanceof OpenAI.APIError && words.test(e.message))
    assert.ok(text.length > 0, `${model}: nothing came before the break`)
    await assert.rejects(client.chat.completions.stream({ model, messages }).finalContent(), OpenAI.APIError)
  }
})

test('the request id is on answers', async () => {
  const { data, response, request_id } = await client.chat.completions.create({ model: 'tiny', messages }).withResponse()
  assert.match(request_id, /^req_/)
  assert.equal(data._request_id, request_id)
  assert.equal(response.headers.get('x-request-id'), request_id)
})

test('a time-out before the first event of a stream', () =>
  assert.rejects(new OpenAI({ maxRetries: 0, timeout: 1 }).chat.completions.create({ model: 'tiny', messages, stream: true }), OpenAI.APIConnectionTimeoutError))

// It comes last: meanwhile any other call would be limited too.
test('429 is a RateLimitError, and is retried when it says', async () => {
  const limits = async (body) => {
    const answer = await fetch(process.env.MODELDOCK_LIMITS_URL, { method: 'PUT', body: JSON.stringify(body), headers: { authorization: `Bearer ${process.env.MODELDOCK_ADMIN_KEY}`, 'content-type': 'application/json' } })
    assert.equal(answer.status, 200)
  }
  await limits({ requestsPerMinute: 30, windowSeconds: 2 })
  try {
    const deadline = Date.now() + 30_000
    for (let refused = false; !refused; ) {
      assert.ok(Date.now() < deadline, 'no call met the limit')
      refused = await client.chat.completions.create({ model: 'tiny', messages }).then(
        () => false,
        (e) => {
          assert.ok(e instanceof OpenAI.RateLimitError && e.code === 'rate_limit_exceeded', `${e.constructor.name}: ${e.message}`)
          assert.ok(Number(e.headers.get('retry-after')) > 0)
          return true
        },
      )
    }
    let calls = 0
    const patient = new OpenAI({ maxRetries: 5, fetch: (...args) => (calls++, fetch(...args)) })
    for (let i = 0; i < 3; i++) await patient.chat.completions.create({ model: 'tiny', messages })
    assert.ok(calls > 3, 'nothing was retried')
  } finally {
    await limits({})
  }
})
