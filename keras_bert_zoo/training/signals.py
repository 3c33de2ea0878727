"""Notes a signal instead of dying of it."""

import signal
import threading


class NotedSignal:
    """In a `with` block, a signal is noted in `received`, and does nothing else.

    Outside of the main thread Python cannot do that, and signals act as ever.

    Attributes:
        received: the signal's number, or `None`.

    Args:
        number: the signal.
    """

    def __init__(self, number: int = signal.SIGTERM):
        self.number = number
        self.received = None
        self._former = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(self.number, self._note)
        return self

    def __exit__(self, *_):
        if self._former is not None:
            signal.signal(self.number, self._former)

    def _note(self, number, _):
        self.received = number
