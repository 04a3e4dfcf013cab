# SPDX-License-Identifier: MIT
"""The server of the OpenAI protocol, with the client library of OpenAI and a small model of random weights, against the model alone."""
import concurrent.futures
import contextlib
import threading
import time

import numpy as np
import openai
import pytest
import uopd
from a_daemon import ADaemon

pytest.importorskip("gguf")
pytest.importorskip("regex")
from llm_files import write_model  # noqa: E402
from llm_served import Scripted, Served  # noqa: E402

from uopd import errors  # noqa: E402
from uopd.llm.batch import Batch  # noqa: E402
from uopd.llm.chat import ChatTemplate  # noqa: E402
from uopd.llm.gguf import stored_in  # noqa: E402
from uopd.llm.model import Model  # noqa: E402
from uopd.llm.serving.endpoints import Endpoints  # noqa: E402
from uopd.llm.serving.http import Server  # noqa: E402
from uopd.llm.tokenizer import Tokenizer  # noqa: E402

SLOTS = 4


@pytest.fixture(scope="module")
def path(tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / "small.gguf"
  write_model(path, "llama", layers=2)
  return path


@pytest.fixture(scope="module")
def small(path):
  tokenizer = Tokenizer.from_gguf(stored_in(path)[0])
  return Model.from_gguf(path)[0], tokenizer, ChatTemplate(tokenizer, None)


@pytest.fixture(scope="module")
def served(small):
  model, tokenizer, template = small
  batch = Batch(model, SLOTS)
  batch.warm_up()
  with Served(Endpoints("small", batch, tokenizer, template, most_waiting=20)) as s: yield s


def text_of(small, prompt, most):
  """What the model writes alone."""
  model, tokenizer, _ = small
  said = list(model.generate(prompt, most))
  assert not any(tokenizer.is_end(t) for t in said)
  decoder = tokenizer.decoder(begins=False)
  return "".join([decoder.feed(t) for t in said]) + decoder.end()


def chat(client, text="Hello", **more): return client.chat.completions.create(model="small", messages=[{"role": "user", "content": text}], **more)


def free_again(served):
  """Waits until all places are free."""
  limit = time.monotonic() + 60
  while served.endpoints.scheduler.running:
    assert time.monotonic() < limit
    time.sleep(0.001)


def test_models(served):
  client = served.client()
  assert [m.id for m in client.models.list()] == ["small"] and client.models.retrieve("small").owned_by == "uopd"
  with pytest.raises(openai.NotFoundError) as e: client.models.retrieve("other")
  assert e.value.code == "model_not_found"


def test_completions(small, served):
  client, tokenizer = served.client(), small[1]
  prompt = tokenizer.encode("Once upon")
  want = text_of(small, tokenizer.with_bos(prompt), 20)
  for p in ("Once upon", ["Once upon"], prompt, [prompt]):
    found = client.completions.create(model="small", prompt=p, max_tokens=20, temperature=0)
    assert found.choices[0].text == want and found.choices[0].finish_reason == "length" and found.object == "text_completion"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (len(prompt), 20, len(prompt) + 20)
  assert client.completions.create(model="small", prompt="Once upon", temperature=0).usage.completion_tokens == 16
  chunks = list(client.completions.create(model="small", prompt="Once upon", max_tokens=20, temperature=0, stream=True))
  assert "".join(c.choices[0].text for c in chunks) == want and [c.choices[0].finish_reason for c in chunks[-2:]] == [None, "length"]


def test_chats(small, served):
  client = served.client()
  prompt = small[2].encode([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}])
  want = text_of(small, prompt, 24)
  messages = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
  for limit in ({"max_tokens": 24}, {"max_completion_tokens": 24}):
    found = client.chat.completions.create(model="small", messages=messages, temperature=0, **limit)
    assert found.choices[0].message.content == want and found.choices[0].message.role == "assistant" and found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (len(prompt), 24)
  chunks = list(client.chat.completions.create(model="small", messages=messages, temperature=0, max_tokens=24, stream=True, stream_options={"include_usage": True}))
  assert len({c.id for c in chunks}) == 1 and chunks[0].choices[0].delta.role == "assistant"
  assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == want
  assert chunks[-2].choices[0].finish_reason == "length" and all(c.choices[0].finish_reason is None for c in chunks[:-2])
  assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 24 and all(c.usage is None for c in chunks[:-1])
  assert all(c.usage is None for c in chat(client, max_tokens=2, stream=True))


def test_16_clients_at_once_get_what_each_gets_alone(small, served):
  texts = [f"{'word ' * (i % 7)}number {i}" for i in range(16)]
  want = [text_of(small, small[2].encode([{"role": "user", "content": t}]), 10 + i) for i, t in enumerate(texts)]
  def ask(i):
    with served.client() as client:
      if i % 2: return chat(client, texts[i], temperature=0, max_tokens=10 + i).choices[0].message.content
      return "".join(c.choices[0].delta.content or "" for c in chat(client, texts[i], temperature=0, max_tokens=10 + i, stream=True))
  with concurrent.futures.ThreadPoolExecutor(16) as pool: assert list(pool.map(ask, range(16))) == want
  free_again(served)


def test_seeds_and_settings(served):
  client = served.client()
  def text(**more): return chat(client, "Go on", max_tokens=20, **more).choices[0].message.content
  assert text(seed=5) == text(seed=5) == text(seed=5, temperature=1, top_p=1) and text(seed=5) != text(seed=6)
  assert text() != text()  # a seed of its own for each
  assert text(temperature=0) == text(temperature=0, seed=3) == text(seed=4, top_p=0.0) == text(extra_body={"top_k": 1}, seed=9)
  plain, penalised = text(temperature=0), text(temperature=0, frequency_penalty=2, presence_penalty=2)
  assert text(temperature=0, extra_body={"repeat_penalty": 3.0}) != plain != penalised


def test_stop_strings_also_across_tokens(small, served):
  client, prompt = served.client(), "Once upon"
  want = text_of(small, small[1].encode(prompt), 60)
  def text(stop, stream=False):
    found = client.completions.create(model="small", prompt=prompt, max_tokens=60, temperature=0, stop=stop, stream=stream)
    if not stream: return found.choices[0].text, found.choices[0].finish_reason
    chunks = list(found)
    return "".join(c.choices[0].text for c in chunks), chunks[-1].choices[0].finish_reason
  for at, n in ((20, 1), (25, 3), (30, 9), (3, 5)):
    stop = want[at:at + n]
    for stream in (False, True): assert text(stop, stream) == (want[:want.index(stop)], "stop")
    assert text(["\x00never", stop]) == (want[:want.index(stop)], "stop")
  assert text(want[-1] + "\x00") == (want, "length")  # the beginning of a stop string that does not go on belongs to the text
  free_again(served)


def test_the_context_ends(small, served):
  client, context = served.client(), small[0].max_context
  fits = client.completions.create(model="small", prompt=[5] * (context - 3), max_tokens=50, temperature=0)
  assert fits.usage.completion_tokens == 4 and fits.choices[0].finish_reason == "length"
  for ask in (lambda: client.completions.create(model="small", prompt=[5] * (context + 1)), lambda: chat(client, "long " * 200), lambda: chat(client, "x" * 100_000), lambda: client.completions.create(model="small", prompt="x" * 100_000)):
    with pytest.raises(openai.BadRequestError, match=f"maximum context length is {context}") as e: ask()
    assert e.value.code == "context_length_exceeded" and e.value.type == "invalid_request_error"


def test_a_client_that_leaves_frees_its_place(served, monkeypatch):
  """Whether it reads a stream or waits for a whole answer."""
  client = served.client()
  stream = chat(client, max_tokens=240, stream=True, temperature=0)
  for _ in range(3): next(stream)
  batch = served.endpoints.scheduler.batch
  assert served.endpoints.scheduler.running == 1 and batch.free == SLOTS - 1
  steps, step = [], batch.step
  monkeypatch.setattr(batch, "step", lambda: (steps.append(1), step())[1])
  stream.close()
  steps.clear()
  free_again(served)
  assert batch.free == SLOTS and len(steps) <= 2  # one that was under way, and one that began while the connection was closed
  gone = client.with_options(timeout=0.05)
  with pytest.raises(openai.APITimeoutError): chat(gone, max_tokens=240, temperature=0)
  free_again(served)


def test_a_full_queue(small):
  model, tokenizer, template = small
  batch = Batch(model, 1)
  steps, step = threading.Semaphore(3), batch.step  # so that the first answer has not ended before the queue is full
  batch.step = lambda: steps.acquire(timeout=60) and step()
  with Served(Endpoints("small", batch, tokenizer, template, most_waiting=1)) as s:
    client = s.client()
    streams = [chat(client, max_tokens=200, stream=True, temperature=0)]
    next(streams[0])
    second = concurrent.futures.ThreadPoolExecutor(1).submit(lambda: chat(s.client(), max_tokens=3, temperature=0))
    limit = time.monotonic() + 60
    while not s.endpoints.scheduler._waiting and time.monotonic() < limit: time.sleep(0.001)
    with pytest.raises(openai.RateLimitError) as e: chat(client)
    assert e.value.code == "rate_limit_exceeded" and e.value.response.headers["retry-after"] == "1"
    streams[0].close()
    steps.release(1000)
    assert second.result(60).usage.completion_tokens == 3


WRONG = [({"temperature": 3}, "temperature"), ({"temperature": "1"}, "temperature"), ({"top_p": -0.1}, "top_p"), ({"max_tokens": 0}, "max_tokens"), ({"max_completion_tokens": 1.5}, "max_completion_tokens"), ({"n": 2}, "n"),
         ({"stop": ["a"] * 5}, "stop"), ({"stop": ""}, "stop"), ({"stop": 5}, "stop"), ({"seed": 1.5}, "seed"), ({"frequency_penalty": 2.1}, "frequency_penalty"), ({"presence_penalty": -3}, "presence_penalty"),
         ({"logprobs": True}, "logprobs"), ({"logit_bias": {"5": 1}}, "logit_bias"), ({"response_format": {"type": "json_object"}}, "response_format"), ({"stream_options": {"include_usage": True}}, "stream_options"),
         ({"tools": [{"type": "function"}]}, "tools[0]"), ({"tool_choice": "required"}, "tool_choice"), ({"extra_body": {"no_such_field": 1}}, "no_such_field"), ({"extra_body": {"stream": 1}}, "stream"),
         ({"extra_body": {"top_k": -1}}, "top_k"), ({"messages": []}, "messages"), ({"messages": ["a"]}, "messages[0]"), ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
         ({"messages": [{"role": "user"}]}, "messages[0].content"), ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"), ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools")]


@pytest.mark.parametrize("given, param", WRONG, ids=[str(w[0])[:60] for w in WRONG])
def test_wrong_fields(served, given, param):
  with pytest.raises(openai.BadRequestError) as e: served.client().chat.completions.create(**{"model": "small", "messages": [{"role": "user", "content": "a"}], **given})
  assert e.value.param == param and param.split(".")[-1].split("[")[0] in str(e.value) and e.value.type == "invalid_request_error"


def test_wrong_completions(served, small):
  client = served.client()
  for prompt in ("", [], None, 5, [[1], [2]], ["a", "b"], [1.5], [-1], [10 ** 30], {"a": 1}):
    with pytest.raises(openai.BadRequestError) as e: client.completions.create(model="small", prompt=prompt)
    assert e.value.param == "prompt", prompt
  with pytest.raises(openai.NotFoundError): client.completions.create(model="other", prompt="a")
  with pytest.raises(openai.BadRequestError, match="model is missing"): client.completions.create(model=None, prompt="a")


def test_fields_that_ask_for_nothing_are_taken(served):
  found = chat(served.client(), max_tokens=2, n=1, logprobs=False, user="me", metadata={"a": "b"}, store=False, tool_choice="none", tools=[{"type": "function", "function": {"name": "f"}}],
               response_format={"type": "text"}, parallel_tool_calls=True, extra_body={"logit_bias": None, "stop": None, "seed": None})
  assert found.usage.completion_tokens == 2


TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.arguments.city }}</tool_call>"
            "{% endfor %}<|im_end|>{% endfor %}<|im_start|>assistant\n")
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]


def said(small, text, template=TEMPLATE, **more):
  """What a client gets where a model says a text, whole and as a stream: content, reasoning, calls as (name, arguments), and how it ended."""
  tokenizer = small[1]
  script = [*tokenizer.encode(text), tokenizer.eos]
  with Served(Endpoints("small", Scripted(script), tokenizer, ChatTemplate(tokenizer, template))) as s:
    client = s.client()
    whole = chat(client, **more).choices[0]
    message = whole.message
    first = (message.content, getattr(message, "reasoning_content", None), [(c.function.name, c.function.arguments) for c in message.tool_calls or []], whole.finish_reason)
    content, reasoning, calls, reason = "", "", [], None
    for chunk in chat(client, stream=True, **more):
      delta, reason = chunk.choices[0].delta, chunk.choices[0].finish_reason
      content += delta.content or ""
      reasoning += getattr(delta, "reasoning_content", None) or ""
      for c in delta.tool_calls or []:
        assert c.index == len(calls) and c.id.startswith("call_") and c.type == "function"
        calls.append((c.function.name, c.function.arguments))
    assert (content or (None if calls else ""), reasoning or None, calls, reason) == first
    return first


CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
CALLED = ("weather", '{"city": "Köln"}')


def test_tools(small):
  assert said(small, CALL, tools=TOOLS) == (None, None, [CALLED], "tool_calls")
  assert said(small, f"I look.\n{CALL}\n{CALL}\n", tools=TOOLS) == ("I look.", None, [CALLED] * 2, "tool_calls")
  assert said(small, CALL) == (CALL, None, [], "stop")  # no tools were offered
  assert said(small, CALL, tools=TOOLS, tool_choice="none") == (CALL, None, [], "stop")
  assert said(small, CALL[:-12], tools=TOOLS) == (None, None, [CALLED], "tool_calls")  # some models leave the end out
  for bad in ("<tool_call>{]</tool_call>", '<tool_call>{"name": 5}</tool_call>', '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "<tool_call>[]", "a <tool_cal b"):
    assert said(small, bad, tools=TOOLS) == (bad.replace("a <tool_call>", "a<tool_call>"), None, [], "stop")
  assert said(small, "  spaces  in text \n", tools=TOOLS)[0] == "  spaces  in text"
  assert said(small, "  spaces  in text \n")[0] == "  spaces  in text \n"


def test_reasoning(small):
  assert said(small, "<think>\nWell, 1 < 2.\n</think>\n\nYes.") == ("Yes.", "Well, 1 < 2.", [], "stop")
  assert said(small, f"<think>I call.</think>{CALL}", tools=TOOLS) == (None, "I call.", [CALLED], "tool_calls")
  assert said(small, "<think></think>\nYes.") == ("Yes.", None, [], "stop")
  assert said(small, "<think>and no end") == ("", "and no end", [], "stop")
  assert said(small, "Yes <think>no</think>") == ("Yes <think>no</think>", None, [], "stop")
  assert said(small, "<thin") == ("<thin", None, [], "stop")
  assert said(small, "so it is.</think>Yes.", TEMPLATE + "<think>\n") == ("Yes.", "so it is.", [], "stop")
  assert said(small, "<think>a STOP b</think>", stop="STOP") == ("", "a", [], "stop")


def test_messages_with_calls_reach_the_template(small):
  tokenizer = small[1]
  scripted = Scripted(tokenizer.encode("ok"))
  seen = []
  scripted.checked = lambda prompt: (seen.append(prompt), prompt)[1]
  with Served(Endpoints("small", scripted, tokenizer, ChatTemplate(tokenizer, TEMPLATE))) as s:
    s.client().chat.completions.create(model="small", max_tokens=2, messages=[
      {"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "warm"}])
  text = tokenizer.decode(seen[0], special=True)
  assert "<tool_call>Rome</tool_call>" in text and "<|im_start|>tool\nwarm" in text


def test_an_error_of_the_daemon_is_told_and_others_go_on(small, monkeypatch):
  model, tokenizer, template = small
  batch = Batch(model, 2)
  with Served(Endpoints("small", batch, tokenizer, template)) as s:
    client = s.client()
    want = chat(client, max_tokens=5, temperature=0).choices[0].message.content
    with monkeypatch.context() as m:
      def fail(*_): raise RuntimeError("planted")
      m.setattr(batch, "_ask_step", fail)
      with pytest.raises(openai.InternalServerError, match="planted"): chat(client, max_tokens=5, temperature=0)
      with pytest.raises(openai.APIError, match="planted"): list(chat(client, max_tokens=5, temperature=0, stream=True))
    assert chat(client, max_tokens=5, temperature=0).choices[0].message.content == want


def test_a_daemon_that_is_not_there_is_told(small, monkeypatch):
  """uopd's error for it is a ConnectionError, which is not that of a client that has gone."""
  model, tokenizer, template = small
  batch = Batch(model, 2)
  with Served(Endpoints("small", batch, tokenizer, template)) as s:
    def fail(*_): raise errors.Unavailable("planted")
    monkeypatch.setattr(batch, "_ask_step", fail)
    with pytest.raises(openai.InternalServerError, match="planted") as e: chat(s.client(), max_tokens=5, temperature=0)
    assert e.value.status_code == 503
    with pytest.raises(openai.InternalServerError, match="planted"): chat(s.client(), max_tokens=5, temperature=0, stream=True)


@contextlib.contextmanager
def connection_of_its_own(address):
  before = uopd.runtime._default
  try:
    uopd.connect(address)
    yield
  finally: uopd.runtime._default = before


def test_a_daemon_that_is_restarted(small, path):
  """The weights are sent again, and a request of which nothing was said is computed then."""
  _, tokenizer, template = small
  made = []
  def make():
    made.append(Batch(Model.from_gguf(path)[0], 2))
    return made[-1]
  with ADaemon() as daemon, connection_of_its_own(daemon.address), Served(Endpoints("small", make(), tokenizer, template, again=make)) as s:
    client = s.client()
    def ask(**more): return chat(client, max_tokens=8, temperature=0, **more)
    want = ask().choices[0].message.content
    for times in (2, 3):
      daemon.restart()
      assert ask().choices[0].message.content == want and len(made) == times
      assert "".join(c.choices[0].delta.content or "" for c in ask(stream=True)) == want and len(made) == times
    stream = chat(client, max_tokens=200, temperature=0, stream=True)
    for _ in range(3): next(stream)
    daemon.restart()
    with pytest.raises(openai.APIError): list(stream)
    assert ask().choices[0].message.content == want and len(made) == 4


def test_a_model_that_cannot_be_loaded_again(small, path):
  """Each request asks for it anew, and is told why there is none."""
  _, tokenizer, template = small
  fails = [True]
  def again():
    if fails[0]: raise OSError("planted: the file is gone")
    return Batch(Model.from_gguf(path)[0], 2)
  with ADaemon() as daemon, connection_of_its_own(daemon.address), Served(Endpoints("small", Batch(Model.from_gguf(path)[0], 2), tokenizer, template, again=again)) as s:
    client = s.client()
    want = chat(client, max_tokens=8, temperature=0).choices[0].message.content
    daemon.restart()
    for _ in range(2):
      with pytest.raises(openai.InternalServerError, match="planted: the file is gone"): chat(client, max_tokens=8, temperature=0)
    fails[0] = False
    assert chat(client, max_tokens=8, temperature=0).choices[0].message.content == want


def test_keys(small):
  model, tokenizer, template = small
  with Served(Endpoints("small", Scripted(tokenizer.encode("a b c")), tokenizer, template), [b"0123456789abcdef", b"fedcba9876543210"]) as s:
    for key in ("0123456789abcdef", "fedcba9876543210"): assert chat(s.client(key)).choices[0].message.content == "a b c"
    for key in ("0123456789abcde", "0123456789abcdefg", "x"):
      with pytest.raises(openai.AuthenticationError) as e: chat(s.client(key))
      assert e.value.code == "invalid_api_key"
      with pytest.raises(openai.AuthenticationError): s.client(key).models.list()
  endpoints = Endpoints("small", Scripted([1]), tokenizer, template)
  with pytest.raises(ValueError, match="can be reached from other machines"): Server("0.0.0.0", 0, endpoints, [])
  endpoints.close()


def test_random_texts_come_as_they_are(small):
  """Whatever is written, the parts of a chat without reasoning and tools add up to it."""
  rng = np.random.default_rng(2)
  for _ in range(6):
    text = "x" + "".join(rng.choice(["<", "think>", "</think>", "<tool_call>", "\n", " ", "é", "日", "a", "{"], 40))
    assert said(small, text) == (text, None, [], "stop")
