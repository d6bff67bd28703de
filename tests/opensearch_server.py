"""An OpenSearch node of its own for tests.

The native libraries of the plugin k-NN are not on Maven Central, so its vectors need the engine `lucene`.
"""

from __future__ import annotations

import urllib.error
import urllib.request

from tests.java_server import JavaServer, free_port


class OpenSearchNode(JavaServer):
    """A node.

    Args:
        beside: a running node whose cluster it joins, to hold data only; None: a cluster of its own.
    """

    name, heap_mb, longest_start_s = "opensearch", 384, 600.0

    def __init__(self, beside: OpenSearchNode | None = None) -> None:
        self._beside, self.transport_port = beside, free_port()

    def arguments(self) -> list[str]:
        """Return its port for other nodes, and that of the node it joins; the launcher needs a folder `config`."""
        (self._folder / "config").mkdir(exist_ok=True)
        return [str(self.transport_port), *([str(self._beside.transport_port)] if self._beside else [])]

    def answers(self) -> bool:
        """Return whether its cluster has found its primaries."""
        try:
            urllib.request.urlopen(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=60s").close()
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    @property
    def url(self) -> str:
        """The node's address."""
        return f"http://127.0.0.1:{self.port}"
