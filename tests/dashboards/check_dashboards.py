#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The dashboards and rules of deploy/ against real daemons, Prometheus, Redis and Alertmanager.

  check_dashboards.py SOURCE_FOLDER UOPD UOPCTL
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

import grpc
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text

import services
from services import Processes, eventually, fetch, free_address, slow

ROOT, UOPD, UOPCTL = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
PROMETHEUS = ROOT / "deploy/prometheus"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RATE_INTERVAL = "20s"  # of $__rate_interval: the test is that short


def matmul(n): return services.matmul(ROOT, n)


class Daemon(services.Daemon):
  def __init__(self, processes, name, *flags, env=None): super().__init__(processes, UOPD, UOPCTL, name, *flags, env=env)


class Dashboards(unittest.TestCase):
  """One set of processes for all tests, which go from the cheapest on."""
  @classmethod
  def setUpClass(cls):
    cls.processes = Processes()
    cls.addClassCleanup(cls.processes.end)
    folder = cls.processes.path
    key = folder / "cluster.key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o600)
    cls.processes.start("redis", "redis-server", "--port", "0", "--unixsocket", str(folder / "redis.sock"), "--save", "")
    if not eventually((folder / "redis.sock").exists): raise RuntimeError("Redis does not start")
    cluster = [f"--cache-cluster=redis+unix://{folder}/redis.sock", f"--cache-cluster-sign-key={key}"]
    cls.first = Daemon(cls.processes, "first", *cluster, env={"TRACK_MATCH_STATS": "1"})
    cls.second = Daemon(cls.processes, "second", *cluster)
    # There is no such GPU, and no time to tune a kernel whose compile takes long.
    cls.third = Daemon(cls.processes, "third", "--device-list=CUDA:63,CPU", "--tune-timeout-ms=100ms")
    cls.sign_key = f"--cache-cluster-sign-key={key}"
    cls.alertmanager = free_address()
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody, group_wait: 0s}\nreceivers: [{name: nobody}]\n")
    cls.processes.start("alertmanager", "prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alerts",
                        f"--web.listen-address={cls.alertmanager}", "--cluster.listen-address=")
    # What the files of deploy/ say, at the speed of a test: a scrape per second, and alerts that wait for nothing.
    for name in ("recording_rules.yml", "alert_rules.yml"):
      (folder / name).write_text(re.sub(r"^ *for: .*\n", "", (PROMETHEUS / name).read_text(), flags=re.MULTILINE))
    config = (PROMETHEUS / "prometheus.yml").read_text().replace("15s", "1s").replace("127.0.0.1:9093", cls.alertmanager)
    targets = ", ".join(f'"{daemon.http}"' for daemon in (cls.first, cls.second, cls.third))
    (folder / "prometheus.yml").write_text(config.replace('"127.0.0.1:50511"', targets))
    cls.prometheus = free_address()
    cls.processes.start("prometheus", "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                        f"--web.listen-address={cls.prometheus}", "--enable-feature=exemplar-storage")
    cls.load_ends = threading.Event()
    cls.loads = [threading.Thread(target=cls.load, args=(i,)) for i in range(2)]
    for load in cls.loads: load.start()
    cls.addClassCleanup(cls.end_load)

  @classmethod
  def end_load(cls):
    cls.load_ends.set()
    for load in cls.loads: load.join()

  @classmethod
  def load(cls, number):
    """Both threads ask for the same: one waits for what the other makes, in one daemon or in two."""
    other = (cls.first, cls.second)[number]
    for n in range(10, 1000):
      for daemon, graph, flags in ((cls.first, slow(n), ()), (other, slow(n + 1000), ()), (other, matmul(n), ("--beam", "1")),
                                   (other, matmul(n), ()), (cls.second, matmul(n), ("--beam", "1")), (cls.third, matmul(4), ())):
        if cls.load_ends.is_set(): return
        daemon.run(graph, *flags)
        cls.call_with_trace(daemon)

  def import_a_winner(self):
    """A winner of a daemon outside of the cluster, which the second one runs against the reference."""
    stranger = Daemon(self.processes, "stranger", self.sign_key)
    graph, bundle = self.processes.path / "product.uop", self.processes.path / "winner.uopb"
    graph.write_text(matmul(7))
    for daemon, *arguments in ((stranger, "tune", str(graph), "--beam", "3", "--candidates", "4"), (stranger, "cache", "export", str(bundle)),
                               (self.second, "cache", "import", "--run", str(bundle))):
      code, text = daemon.control(*arguments)
      self.assertEqual(code, 0, f"{arguments}: {text}")
    self.assertEqual(self.second.value('uopd_imported_winners_total{result="proven"}'), 1)

  def fail_to_tune(self):
    """Twice: the second operation gets the failure of the first from memory."""
    graph = self.processes.path / "slow.uop"
    graph.write_text(slow(5000, 10_000))
    for _ in range(2): self.third.control("tune", str(graph), "--device", "CPU:0", "--beam", "1")
    self.assertGreaterEqual(self.third.value('uopd_failures_remembered_total{kind="tuning"}'), 1)
    self.assertTrue(eventually(lambda: self.third.value('uopd_failures_held{kind="tuning"}') >= 1))

  @classmethod
  def crash_a_compiler(cls, daemon):
    """Sends SIGSEGV to a process that compiles, until its job is in quarantine."""
    def crash(n):
      call = threading.Thread(target=daemon.run, args=(slow(n, 10_000),))
      call.start()
      before = {}
      while call.is_alive():
        for pid, state, ticks in services.worker_processes(daemon, "uopd-compile"):
          if state == "R" and ticks >= before.setdefault(pid, ticks) + 2: os.kill(pid, signal.SIGSEGV)
      call.join()
      return daemon.value('uopd_worker_kills_total{pool="compile"}') > 0
    return any(crash(n) for n in range(4000, 4100))

  @staticmethod
  def call_with_trace(daemon):
    with grpc.insecure_channel(daemon.address) as channel:
      hello = channel.unary_unary("/uopd.v1.UopdService/Hello", request_serializer=bytes, response_deserializer=bytes)
      try: hello(b"", metadata=[("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")], timeout=10)
      except grpc.RpcError: pass  # an empty request may be refused; it is counted all the same

  def ask(self, path, **parameters):
    answer = json.loads(fetch(f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")[0])
    self.assertEqual(answer["status"], "success", f"{parameters}: {answer.get('error')}")
    return answer["data"]

  def panels(self):
    for path in sorted((ROOT / "deploy/grafana/dashboards").glob("*.json")):
      for panel in json.loads(path.read_text())["panels"]:
        if panel["type"] != "row": yield f"{path.stem}: {panel['title']}", panel

  def expressions(self):
    """Every expression: what it is of, and its text for a dashboard with all jobs and instances."""
    for name, panel in self.panels():
      for target in panel["targets"]:
        yield name, (target["expr"].replace("$__rate_interval", RATE_INTERVAL).replace("$job", ".*").replace("$instance", ".*"))

  def rules(self):
    """Every rule of deploy/prometheus, as Prometheus reads it."""
    return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

  def test_1_files_are_current_and_valid(self):
    subprocess.run([ROOT / "deploy/grafana/make_dashboards.py", "--check"], check=True)
    subprocess.run(["promtool", "check", "rules", *PROMETHEUS.glob("*_rules.yml")], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["promtool", "check", "config", PROMETHEUS / "prometheus.yml"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["promtool", "test", "rules", ROOT / "tests/dashboards/alerts_test.yml"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["amtool", "check-config", self.processes.path / "alertmanager.yml"], check=True, stdout=subprocess.DEVNULL)

  def test_2_panels_explain_themselves(self):
    for name, panel in self.panels():
      self.assertTrue(panel["description"] and panel["fieldConfig"]["defaults"]["unit"], name)
      self.assertEqual(panel["datasource"]["uid"], "${datasource}", name)
      for target in panel["targets"]:
        self.assertRegex(target["expr"], 'job=~"\\$job",instance=~"\\$instance"', name)

  def test_3_every_alert_has_cases_and_a_section(self):
    page = (ROOT / "docs/monitoring.md").read_text()
    headings = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}
    cases = (ROOT / "tests/dashboards/alerts_test.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", (PROMETHEUS / "alert_rules.yml").read_text())
    links = re.findall(r"runbook_url: docs/monitoring.md#(\S+)", (PROMETHEUS / "alert_rules.yml").read_text())
    self.assertEqual(links, [alert.lower() for alert in alerts])
    for alert in alerts:
      self.assertIn(alert.lower(), headings)
      self.assertRegex(cases, rf"alertname: {alert}\n +exp_alerts:\n +- exp_labels", f"{alert} has no case in which it fires")

  def test_4_metrics_in_both_texts(self):
    text, kind = self.first.metrics()
    self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
    names = {sample.name for family in parse_text(text) for sample in family.samples}
    text, kind = self.first.metrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = list(text_string_to_metric_families(text))
    self.assertEqual(names - {sample.name for family in families for sample in family.samples}, set())
    for family in families:
      for unit in ("seconds", "bytes"):
        if family.name.endswith("_" + unit): self.assertEqual(family.unit, unit, family.name)

  def test_5_every_panel_has_data(self):
    self.import_a_winner()
    self.fail_to_tune()
    self.assertTrue(self.crash_a_compiler(self.second))
    expressions = list(self.expressions())
    self.assertGreater(len(expressions), 80)
    missing = dict(expressions)

    def all_have_data():
      for name, expression in expressions:
        if (name, expression) in found: continue
        try: data = self.ask("query", query=expression)
        except (OSError, ValueError): return False  # Prometheus is starting
        if data["result"]: found.add((name, expression))
      return len(found) == len(set(expressions))

    found = set()
    eventually(all_have_data, 50)
    missing = sorted(set(expressions) - found)
    self.assertEqual(missing, [], f"{len(missing)} expressions have no data")

  def test_6_every_metric_exists(self):
    rules = self.rules()
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    families = [family for daemon in (self.first, self.second, self.third) for family in parse_text(daemon.metrics()[0])]
    exported = {sample.name for family in families for sample in family.samples}
    # A family with nothing to count yet; the parser takes the ending off a counter.
    exported |= {family.name + ("_total" if family.type == "counter" else "") for family in families if not family.samples}
    for name, expression in [*self.expressions(), *((rule["name"], rule["query"]) for rule in rules)]:
      with self.subTest(name):
        used = set(re.findall(r"\buopd[a-z0-9_:]*", expression)) - {"uopd"}  # job="uopd"
        self.assertTrue(used or "up{" in expression, expression)
        self.assertEqual(used - exported - recorded, set(), "no such metrics")
    for rule in rules: self.assertEqual(rule.get("lastError", ""), "", rule["name"])
    for rule in rules:
      if rule["type"] == "recording": self.assertTrue(eventually(lambda: self.ask("query", query=rule["name"])["result"]), rule["name"])
    self.assertTrue(eventually(lambda: self.second.value('uopd_quarantined_jobs{pool="compile"}') >= 1))

  def test_7_exemplars_lead_to_traces(self):
    def traces():
      found = self.ask("query_exemplars", query="uopd_rpc_duration_seconds_bucket", start=time.time() - 300, end=time.time() + 60)
      return [(series["seriesLabels"]["method"], one["labels"]) for series in found for one in series["exemplars"]]
    self.assertTrue(eventually(lambda: ("Hello", {"trace_id": TRACE}) in traces()), traces())
    self.assertTrue(any("request_id" in labels for _, labels in traces()))

  def test_7_the_commands_of_the_runbook_run(self):
    """Every command of uopctl and curl in the sections of the alerts, against a daemon."""
    page = (ROOT / "docs/monitoring.md").read_text()
    commands = sorted(set(re.findall(r"`((?:uopctl|curl|redis-cli) [^`]*)`", page[page.index("\n## Alerts\n"):])))
    self.assertGreater(len(commands), 8)
    graph = ROOT / "docs/examples/matmul.uop"
    for command in commands:
      with self.subTest(command):
        words = command.replace("GRAPH", str(graph)).replace("HOST:50511", self.first.http).split()
        if words[0] == "redis-cli":  # --latency goes on until it is ended
          if "--latency" in words: continue
          words = ["redis-cli", "-s", str(self.processes.path / "redis.sock"), *words[3:]]
        if words[0] == "uopctl":
          words = [UOPCTL, "--address", self.first.address, *words[1:]]
          if words[-1] == "FILE": words = [*words[:-1], "--help"]  # a reproducer is made by a bug only
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

  def test_8_alerts_reach_the_alertmanager(self):
    url = f"--alertmanager.url=http://{self.alertmanager}"

    def firing():
      out = subprocess.run(["amtool", url, "alert", "query", "-o", "json"], capture_output=True, text=True)
      return {(one["labels"]["alertname"], one["labels"].get("instance")) for one in json.loads(out.stdout or "[]")}
    # The third daemon has no device for what it is asked.
    for alert in ("UopdErrorsBurnFast", "UopdDeviceNotReady"):
      self.assertTrue(eventually(lambda: (alert, self.third.http) in firing()), firing())
    self.assertNotIn("UopdDown", {name for name, _ in firing()})
    self.third.process.kill()
    self.assertTrue(eventually(lambda: ("UopdDown", self.third.http) in firing()), firing())
    self.assertEqual({instance for name, instance in firing() if name == "UopdDown"}, {self.third.http})
    self.assertEqual([name for name, instance in firing() if instance == self.first.http], [])


if __name__ == "__main__": unittest.main(argv=sys.argv[:1], failfast=False)
