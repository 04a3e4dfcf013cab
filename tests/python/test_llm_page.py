# SPDX-License-Identifier: MIT
"""The page to chat, whose script runs in Node.js with as much of a browser as it uses."""
import importlib.resources
import json
import re
import shutil
import subprocess

import pytest

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")

# Answers of the server come from `server`, a function of the messages of a request that yields pieces of text. `say` sends a text as a user does. `sent`: the messages of each request.
BROWSER = """
const boxes = {}, sent = [];
const element = () => ({ value: "", textContent: "", disabled: false, children: [], on: {}, addEventListener(name, f) { this.on[name] = f; }, append(x) { this.children.push(x); },
  replaceChildren() { this.children = []; }, scrollIntoView() { } });
globalThis.document = { getElementById: (id) => boxes[id] ??= element(), createElement: element };
globalThis.fetch = async (path, given) => {
  if (path === "/v1/models") return new Response(JSON.stringify({ data: [{ id: "small" }] }));
  const messages = JSON.parse(given.body).messages;
  sent.push(messages);
  const encoder = new TextEncoder();
  return new Response(new ReadableStream({ async start(to) {
    given.signal.addEventListener("abort", () => { try { to.error(new DOMException("", "AbortError")); } catch (e) { } });
    try {
      for await (const text of server(messages)) to.enqueue(encoder.encode("data: " + JSON.stringify({ choices: [{ delta: { content: text } }] }) + "\\n\\n"));
      to.enqueue(encoder.encode("data: [DONE]\\n\\n"));
      to.close();
    } catch (e) { }
  } }));
};
const until = async (f) => { while (!f()) await new Promise((r) => setTimeout(r, 1)); };
const say = (text) => { boxes.text.value = text; boxes.form.on.submit({ preventDefault() { } }); };
const idle = () => until(() => !boxes.send.disabled);
const shown = () => boxes.turns.children.map((b) => b.textContent);
"""


def run(server, steps):
  """What `steps` return."""
  page = importlib.resources.files("uopd.llm.serving").joinpath("page.html").read_text()
  script = re.search("<script>(.*?)</script>", page, re.DOTALL)[1].replace('"use strict";', "")
  program = f"{BROWSER}\nconst server = {server};\n{script}\n(async () => {{ {steps} }})().then((found) => console.log(JSON.stringify(found)));"
  ran = subprocess.run([NODE, "-e", program], capture_output=True, text=True, timeout=60)
  assert ran.returncode == 0 and not ran.stderr, ran.stderr
  return json.loads(ran.stdout)


def user(text): return {"role": "user", "content": text}
def assistant(text): return {"role": "assistant", "content": text}


def test_a_conversation():
  found = run("async function* (m) { yield 'answer '; yield String(m.length); }", "say('one'); await idle(); say('two'); await idle(); return [sent, shown()];")
  assert found == [[[user("one")], [user("one"), assistant("answer 1"), user("two")]], ["one", "answer 1", "two", "answer 3"]]


@pytest.mark.parametrize("before", ["yield 'secret';", ""])
def test_a_new_conversation_has_nothing_of_one_that_was_being_answered(before):
  found = run(f"async function* (m) {{ if (sent.length === 1) {{ {before} await new Promise(() => {{ }}); }} yield 'fine'; }}",
              f"say('old'); await until(() => sent.length && shown().length === {2 if before else 1}); boxes['new'].on.click(); await idle(); const text = boxes.text.value; say('new'); await idle(); return [sent[1], shown(), text];")
  assert found == [[user("new")], ["new", "fine"], ""]


def test_what_was_said_before_stop_belongs_to_the_conversation():
  found = run("async function* (m) { if (sent.length === 1) { yield 'half'; await new Promise(() => { }); } yield 'fine'; }",
              "say('old'); await until(() => shown().includes('half')); boxes.stop.on.click(); await idle(); say('new'); await idle(); return sent[1];")
  assert found == [user("old"), assistant("half"), user("new")]
