"""What holds for all tests."""

from hypothesis import settings

pytest_plugins = ["tests.servers.fixtures"]

# A deadline asserts with a clock, and a busy machine fails it.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")
