# SPDX-License-Identifier: MIT
"""A TCP port that forwards to a daemon, slowly in one direction."""
import socket
import threading
import time


class SlowLink:
  """`with SlowLink("host:port", rate) as address:` carries `rate` bytes a second from clients to the daemon."""
  piece = 1 << 16  # the most bytes that are carried at once
  def __init__(self, target, rate):
    self.target, self.rate = target, rate
    self.listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=self._accept, daemon=True).start()

  def _accept(self):
    while True:
      try: client, _ = self.listener.accept()
      except OSError: return
      host, port = self.target.rsplit(":", 1)
      try: server = socket.create_connection((host, int(port)))
      except OSError:  # the daemon has ended
        client.close()
        continue
      for a, b, rate in ((client, server, self.rate), (server, client, 0)): threading.Thread(target=self._copy, args=(a, b, rate, a is client), daemon=True).start()

  def _forwarded(self, data, to_daemon): pass

  def _copy(self, a, b, rate, to_daemon):
    try:
      while data := a.recv(self.piece):
        b.sendall(data)
        self._forwarded(data, to_daemon)
        if rate: time.sleep(len(data) / rate)
    except OSError: pass
    for s in (a, b):
      try: s.shutdown(socket.SHUT_RDWR)
      except OSError: pass

  def __enter__(self):
    host, port = self.listener.getsockname()
    return f"{host}:{port}"
  def __exit__(self, *args): self.listener.close()
