#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every alert of deploy/ is seen: its cause in a real daemon under load, its arrival at a real Alertmanager, and its end.

  check_alerts.py SOURCE_FOLDER UOPD UOPCTL FOLDER_OF_THE_FAKE_LIBCUDA [ALERT...]

All times of the rules are divided by FACTOR: an hour takes 12 seconds. Before and beside the causes, a daemon has ordinary load
for which nothing may fire.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc

import services
from services import Processes, eventually, free_address, slow

ROOT, ONLY = pathlib.Path(sys.argv[1]).resolve(), sys.argv[5:]
UOPD, UOPCTL, FAKE_CUDA = (str(pathlib.Path(path).resolve()) for path in sys.argv[2:5])
PROMETHEUS = ROOT / "deploy/prometheus"
FACTOR = 300
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
CAUSES = {}  # by alert


def compress(rules):
  """Rules whose times are divided by FACTOR: ranges, `for`, and those that are written in seconds. What the alert about searches waits for
  takes its own time, so its ranges stay longer."""
  rules = re.sub(r"(uopd_tune_(?:queue|candidates_total)(?:\[| offset ))30m", r"\g<1>150m", rules)
  def shorter(match): return f"{match[1]}{max(int(float(match[2]) * UNITS[match[3]] * 1000 / FACTOR), 1)}ms"
  rules = re.sub(r"(\[|for: |offset )(\d+)([smh])", shorter, rules)
  rules = rules.replace("< 15 * 60", f"< 15 * 60 / {FACTOR}")
  return re.sub(r'(pool_oldest_wait_seconds\{[^}]*\}) > 60', rf"\1 > 60 / {FACTOR}", rules)


def cause(*alerts):
  """Marks what causes alerts: a generator over a Check. It yields the daemon while the cause lasts, and None after its end."""
  def mark(function):
    CAUSES[alerts] = function
    return function
  return mark


class Load:
  """Calls `work(i)` in threads until the end of the scope."""
  def __init__(self, work, threads=1):
    self.ends = threading.Event()
    self.threads = [threading.Thread(target=self.loop, args=(work, k, threads)) for k in range(threads)]

  def loop(self, work, k, step):
    i = k
    while not self.ends.is_set():
      work(i)
      i += step

  def __enter__(self):
    for thread in self.threads: thread.start()
    return self

  def __exit__(self, *_):
    self.ends.set()
    for thread in self.threads: thread.join()


class SlowLink:
  """A Unix socket in front of another one, whose answers come late."""
  def __init__(self, path, target):
    self.target, self.delay = str(target), 0.0
    self.server = socket.socket(socket.AF_UNIX)
    self.server.bind(str(path))
    self.server.listen()
    threading.Thread(target=self.accept, daemon=True).start()

  def accept(self):
    while True:
      client, _ = self.server.accept()
      other = socket.socket(socket.AF_UNIX)
      other.connect(self.target)
      threading.Thread(target=self.copy, args=(client, other, False), daemon=True).start()
      threading.Thread(target=self.copy, args=(other, client, True), daemon=True).start()

  def copy(self, source, target, late):
    try:
      while data := source.recv(1 << 16):
        if late: time.sleep(self.delay)
        target.sendall(data)
    except OSError: pass
    with contextlib.suppress(OSError): target.shutdown(socket.SHUT_WR)


class Check:
  def __init__(self, processes):
    self.processes = processes
    self.lock = threading.Lock()
    self.targets = []
    folder = processes.path
    self.pb = self.generate(folder / "generated")
    self.key = folder / "cluster.key"
    self.key.write_text(os.urandom(32).hex())
    self.key.chmod(0o600)
    self.alertmanager, self.prometheus = free_address(), free_address()
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody, group_wait: 0s, group_interval: 1s}\nreceivers: [{name: nobody}]\n")
    processes.start("alertmanager", "prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alerts",
                    f"--web.listen-address={self.alertmanager}", "--cluster.listen-address=")
    for name in ("recording_rules.yml", "alert_rules.yml"): (folder / name).write_text(compress((PROMETHEUS / name).read_text()))
    (folder / "targets.json").write_text("[]")
    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 250ms, evaluation_interval: 250ms}}
rule_files: [recording_rules.yml, alert_rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{self.alertmanager}"]}}]}}]}}
scrape_configs: [{{job_name: uopd, file_sd_configs: [{{files: [targets.json], refresh_interval: 1s}}]}}]
""")
    processes.start("prometheus", "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                    f"--web.listen-address={self.prometheus}", "--rules.alert.resend-delay=1s")

  @staticmethod
  def generate(folder):
    """The messages of the protocol."""
    folder.mkdir()
    subprocess.run(["protoc", "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin", f"--proto_path={ROOT}/proto", f"--python_out={folder}",
                    f"--grpc_out={folder}", "uopd/v1/uopd.proto", "uopd/v1/graph.proto", "google/rpc/status.proto"], check=True)
    sys.path.insert(0, str(folder))
    from uopd.v1 import uopd_pb2, uopd_pb2_grpc
    return uopd_pb2, uopd_pb2_grpc

  def daemon(self, name, *flags, **more):
    one = services.Daemon(self.processes, UOPD, UOPCTL, name, *flags, **more)
    with self.lock:
      self.targets.append(one.http)
      self.write_targets()
    return one

  def redis(self, name):
    path = self.processes.path / f"{name}.sock"
    process = self.processes.start(name, "redis-server", "--port", "0", "--unixsocket", str(path), "--save", "")
    if not eventually(path.exists): raise RuntimeError("Redis does not start")
    return path, process

  def cluster(self, socket_path): return f"--cache-cluster=redis+unix://{socket_path}", f"--cache-cluster-sign-key={self.key}"

  def firing(self):
    """Pairs of alert and instance that the Alertmanager has."""
    out = subprocess.run(["amtool", f"--alertmanager.url=http://{self.alertmanager}", "alert", "query", "-o", "json"], capture_output=True, text=True)
    return {(one["labels"]["alertname"], one["labels"].get("instance")) for one in json.loads(out.stdout or "[]")}

  def forget(self, daemon):
    """The daemon is gone for good."""
    with self.lock:
      self.targets.remove(daemon.http)
      self.write_targets()

  def write_targets(self):
    new = self.processes.path / "targets.new"
    new.write_text(json.dumps([{"targets": self.targets}]))
    new.rename(self.processes.path / "targets.json")

  @staticmethod
  def matmul(n): return services.matmul(ROOT, n)

  def stub(self, daemon): return self.pb[1].UopdServiceStub(grpc.insecure_channel(daemon.address))

  def fill(self, daemon, part, limit):
    """A session whose buffers take a part of the memory for clients. Its end frees them."""
    pb, stub = self.pb[0], self.stub(daemon)
    session = stub.OpenSession(pb.OpenSessionRequest()).session_id
    stub.CreateBuffers(pb.CreateBuffersRequest(session_id=session, buffers=[pb.BufferSpec(handle=1, bytes=int(limit * part))]))
    return lambda: stub.CloseSession(pb.CloseSessionRequest(session_id=session))

  def crash_compiles(self, daemon, first, count):
    """Crashes the compiles of `count` kernels. The graphs that ask for them fail with INTERNAL from now on."""
    crashed = []
    for n in range(first, first + 100):
      before = daemon.value('uopd_worker_kills_total{pool="compile"}')
      call = threading.Thread(target=daemon.run, args=(slow(n, 10_000),))
      call.start()
      seen = {}
      while call.is_alive():
        for pid, state, ticks in services.worker_processes(daemon, "uopd-compile"):
          if state == "R" and ticks >= seen.setdefault(pid, ticks) + 2:
            with contextlib.suppress(ProcessLookupError): os.kill(pid, signal.SIGSEGV)
      call.join()
      if daemon.value('uopd_worker_kills_total{pool="compile"}') > before: crashed.append(slow(n, 10_000))
      if len(crashed) == count: return crashed
    raise RuntimeError("no compile could be crashed")


@cause("UopdDown")
def down(check):
  daemon = check.daemon("down")
  daemon.kill()
  yield daemon
  daemon.start()
  yield


@cause("UopdRestartsOften")
def restarts(check):
  daemon = check.daemon("restarts", "--compile-warm-up=false")

  def again(_):
    daemon.kill()
    daemon.start(*daemon.flags)
    time.sleep(0.4)
  with Load(again): yield daemon
  yield


@cause("UopdDeviceLost", "UopdDeviceNotReady", "UopdNotReady")
def device_lost(check):
  fail = check.processes.path / "fail_cuda"
  daemon = check.daemon("device", "--device-list=CUDA:0,CPU", "--device-compile-only=", env={"LD_LIBRARY_PATH": FAKE_CUDA, "UOPD_FAKE_CUDA_FAIL": str(fail)})
  pb, stub = check.pb[0], check.stub(daemon)

  def lose(_):
    """An upload fails as after a kernel that broke the context; ten seconds later the daemon opens the device again."""
    session = stub.OpenSession(pb.OpenSessionRequest()).session_id
    fail.touch()
    time.sleep(0.1)
    with contextlib.suppress(grpc.RpcError):
      stub.Upload(iter([pb.UploadRequest(session_id=session, buffer=pb.BufferSpec(handle=1, bytes=4096, device="CUDA:0"), data=bytes(4096))]))
    stub.CloseSession(pb.CloseSessionRequest(session_id=session))
    time.sleep(0.3)
  with Load(lose): yield daemon
  fail.unlink(missing_ok=True)
  yield


@cause("UopdErrorsBurnFast", "UopdErrorsBurnSlowly", "UopdTenantErrorsBurnFast")
def internal_errors(check):
  daemon = check.daemon("internal", "--compile-fast-tier=false", "--compile-warm-up=false")
  graph, = check.crash_compiles(daemon, 3000, 1)

  def calls(i):
    code, text = daemon.run(graph)
    assert code != 0 and "INTERNAL" in text, text
    daemon.run(check.matmul(4 + i % 5))
  with Load(calls): yield daemon
  # As the runbook says.
  code, text = daemon.control("quarantine", "clear")
  assert code == 0, text
  with Load(lambda i: daemon.run(check.matmul(4 + i % 5))): yield


@cause("UopdWaitsBurnFast", "UopdWaitsBurnSlowly", "UopdQueueWaitLong", "UopdPoolStuck")
def waits(check):
  daemon = check.daemon("waits", "--compile-threads=1", "--compile-fast-tier=false")
  with Load(lambda i: daemon.run(slow(6000 + i, 3000)), threads=24): yield daemon
  with Load(lambda i: daemon.run(check.matmul(4 + i % 5))): yield


@cause("UopdClientMemoryNearlyFull", "UopdMemoryShort", "UopdDeviceMemoryFull")
def memory(check):
  limit = 64 << 20
  daemon = check.daemon("memory", f"--limits-total-bytes={limit}", "--limits-session-bytes=1GiB")
  free = check.fill(daemon, 0.97, limit)

  def refused(_):
    try: check.fill(daemon, 0.1, limit)
    except grpc.RpcError as error: assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    else: raise AssertionError("memory beyond the limit was given")
    time.sleep(0.1)
  with Load(refused): yield daemon
  free()
  yield


@cause("UopdCacheNotKept")
def cache_not_kept(check):
  daemon = check.daemon("not_kept", "--cache-read-only")
  with Load(lambda i: daemon.run(check.matmul(4 + i % 5))): yield daemon
  daemon.kill()
  daemon.start()
  yield


@cause("UopdCacheLost")
def cache_lost(check):
  daemon = check.daemon("lost")
  daemon.run(check.matmul(4))
  daemon.process.terminate()  # a journal of a daemon that was killed could repair the file
  daemon.process.wait()
  file = daemon.folder / "data/uopd-cache.sqlite"
  with open(file, "r+b") as out: out.write(os.urandom(8192))
  daemon.start()
  yield daemon
  daemon.kill()
  daemon.start()
  yield


@cause("UopdCacheNearlyFull")
def cache_nearly_full(check):
  daemon = check.daemon("full", "--cache-max-bytes=1MiB")
  fill = lambda: json.loads(daemon.control("cache", "stats", "--json")[1])["data"]["file_bytes"] / (1 << 20)
  for n in range(2000):
    if 0.96 < fill() <= 1: break
    daemon.run(slow(n + 10, 300))
  yield daemon
  code, text = daemon.control("cache", "evict", "--all")
  assert code == 0, text
  yield


@cause("UopdClusterDown")
def cluster_down(check):
  path, redis = check.redis("redis_down")
  daemon = check.daemon("cluster_down", *check.cluster(path))
  redis.send_signal(signal.SIGSTOP)
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield daemon
  redis.send_signal(signal.SIGCONT)
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield


@cause("UopdClusterTooSlow")
def cluster_too_slow(check):
  path, _ = check.redis("redis_slow")
  link = SlowLink(check.processes.path / "link.sock", path)
  daemon = check.daemon("cluster_slow", *check.cluster(check.processes.path / "link.sock"), "--cache-cluster-budget-ms=200ms")
  link.delay = 0.15
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield daemon
  link.delay = 0
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield


@cause("UopdClusterPutsFail")
def cluster_full(check):
  path, _ = check.redis("redis_full")
  command = ["redis-cli", "-s", str(path), "CONFIG", "SET", "maxmemory"]
  daemon = check.daemon("cluster_full", *check.cluster(path))
  subprocess.run([*command, "1"], check=True, stdout=subprocess.DEVNULL)  # with the default policy, noeviction
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield daemon
  subprocess.run([*command, "0"], check=True, stdout=subprocess.DEVNULL)
  with Load(lambda i: daemon.run(check.matmul(4 + i))): yield


@cause("UopdClusterRecordsBad")
def cluster_records_bad(check):
  path, _ = check.redis("redis_bad")
  cluster = check.cluster(path)
  writer = check.daemon("bad_writer", *cluster)
  redis = lambda *words: subprocess.run(["redis-cli", "-s", str(path), *words], capture_output=True, check=True).stdout.decode(errors="replace")
  graphs = range(100, 130)
  for n in graphs: writer.run(check.matmul(n))
  assert eventually(lambda: len(redis("--scan", "--pattern", "uopd:1:*:row").split()) >= 2 * len(graphs))
  for key in redis("--scan", "--pattern", "uopd:1:*:row").split():
    for field in redis("HKEYS", key).split(): redis("HSET", key, field, "forged")
  reader = check.daemon("bad_reader", *cluster)
  with Load(lambda i: (reader.run(check.matmul(graphs[i % len(graphs)])), time.sleep(0.2))): yield reader
  yield


@cause("UopdQuarantineGrows")
def quarantine(check):
  daemon = check.daemon("quarantine", "--compile-fast-tier=false", "--compile-warm-up=false")
  time.sleep(2)  # so that there was none for a while
  check.crash_compiles(daemon, 4000, 5)
  yield daemon
  yield


@cause("UopdTuningCrashes")
def tuning_crashes(check):
  daemon = check.daemon("tuning_crashes")

  def crash(_):
    for name in ("uopd-measure", "uopd-tune"):
      for pid, _state, _ticks in services.worker_processes(daemon, name):
        with contextlib.suppress(ProcessLookupError): os.kill(pid, signal.SIGSEGV)
    time.sleep(0.05)
  with Load(crash), Load(lambda i: daemon.run(check.matmul(4 + i), "--beam", "1")): yield daemon
  with Load(lambda i: daemon.run(check.matmul(1000 + i), "--beam", "1")): yield


@cause("UopdForkServerRestarts")
def fork_server(check):
  daemon = check.daemon("forks")

  def end(_):
    for pid, _state, _ticks in services.worker_processes(daemon, "uopd-forks"):
      with contextlib.suppress(ProcessLookupError): os.kill(pid, signal.SIGKILL)
    time.sleep(0.3)
  with Load(end): yield daemon
  yield


@cause("UopdTuningStuck")
def tuning_stuck(check):
  path, redis = check.redis("redis_stuck")
  daemon = check.daemon("tuning_stuck", *check.cluster(path), "--tune-settle-ms=1h")
  daemon.run(check.matmul(4), "--beam", "1")
  yield daemon
  daemon.kill()
  daemon.start(*check.cluster(path), "--tune-settle-ms=100ms")
  yield


def see(check, alerts, function):
  """Runs one cause. Returns what went wrong, and how long each alert took to come and to go."""
  report = []
  steps = function(check)
  begun = time.monotonic()
  daemon = next(steps)
  try:
    for alert in alerts:
      if not eventually(lambda: (alert, daemon.http) in check.firing(), 60): return [f"{alert} does not fire"]
      report.append(f"{alert} fires after {time.monotonic() - begun:.1f} s")
    begun = time.monotonic()
    next(steps)
    for alert in alerts:
      if not eventually(lambda: (alert, daemon.http) not in check.firing(), 150): return [*report, f"{alert} does not end"]
      report.append(f"{alert} ends after {time.monotonic() - begun:.1f} s")
  finally: steps.close()
  daemon.kill()
  check.forget(daemon)
  return report


def main():
  wanted = re.findall(r"- alert: (\w+)", (PROMETHEUS / "alert_rules.yml").read_text())
  seen = [alert for alerts in CAUSES for alert in alerts]
  if missing := set(wanted) ^ set(seen): sys.exit(f"alerts without a cause here, or causes without an alert: {missing}")
  processes = Processes()
  try:
    check = Check(processes)
    ordinary = check.daemon("ordinary")
    failed = False
    with Load(lambda i: ordinary.run(check.matmul(4 + i % 40), *(["--beam", "1"] if i % 9 == 0 else []))):
      time.sleep(3600 / FACTOR)  # an hour
      if noise := {one for one in check.firing() if one[1] == ordinary.http}: sys.exit(f"ordinary load fires {noise}")
      chosen = {alerts: f for alerts, f in CAUSES.items() if not ONLY or set(ONLY) & set(alerts)}
      with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for alerts, result in zip(chosen, pool.map(lambda item: see(check, *item), chosen.items())):
          bad = any("does not" in line for line in result) or len(result) < 2 * len(alerts)
          failed |= bad
          print("\n".join(result), flush=True)
      if noise := {one for one in check.firing() if one[1] == ordinary.http}: sys.exit(f"ordinary load fires {noise}")
    if failed: sys.exit(1)
    print(f"{len(seen)} alerts came and went; ordinary load fired none")
  finally: processes.end()


if __name__ == "__main__": main()
