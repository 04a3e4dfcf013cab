# SPDX-License-Identifier: MIT
"""A TCP port that forwards to a daemon, and counts the bytes that clients send."""
from slow_link import SlowLink


class CountingLink(SlowLink):
  """`with CountingLink("host:port") as link:` has link.address and link.sent, in bytes: all that goes over the wire, with the frames of HTTP/2."""
  def __init__(self, target):
    self.sent = 0
    super().__init__(target, rate=None)

  def _forwarded(self, data, to_daemon):
    if to_daemon: self.sent += len(data)

  def __enter__(self):
    self.address = super().__enter__()
    return self
