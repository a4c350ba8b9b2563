"""Answers: frames to send, where each answer waits for those to earlier frames."""

from collections.abc import Iterator

from headgate.app.live.intents import Intent

Text = str | Iterator[str]
"""A frame; one that may be long comes in parts, with time for others in between."""


class _Due:
    """An answer that has its place; what it says may not be known yet."""

    __slots__ = ("intent", "is_known", "texts")

    def __init__(self, intent: Intent | None, *texts: Text) -> None:
        self.intent = intent
        self.texts = texts
        self.is_known = intent is None


class OrderedAnswers:
    """The frames to send to a client, in order."""

    __slots__ = ("_due", "_ready")

    def __init__(self) -> None:
        """Start with nothing to say."""
        self._due: list[_Due] = []
        self._ready: list[Text] = []

    def say(self, text: Text) -> None:
        """Send a text that is no answer: it waits for none."""
        self._ready.append(text)

    def answer(self, text: Text) -> None:
        """Answer a frame at once, but behind the answers to those before it."""
        if self._due:
            self._due.append(_Due(None, text))
        else:
            self._ready.append(text)

    def expect(self, intent: Intent) -> None:
        """Keep the place of the answer to a frame for which something is to be done."""
        self._due.append(_Due(intent))

    def done(self, intent: Intent, *texts: Text) -> None:
        """Answer a frame for which everything is done, if there is something to answer."""
        for due in self._due:
            if due.intent is intent:
                due.texts, due.is_known = texts, True
                break
        while self._due and self._due[0].is_known:
            self._ready += self._due.pop(0).texts

    def take(self) -> list[Text]:
        """Return the frames that can be sent now, each once."""
        frames, self._ready = self._ready, []
        return frames
