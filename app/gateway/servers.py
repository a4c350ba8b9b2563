"""Redis or Valkey servers as a backend; only they import redis-py, a tenth of the startup."""

from pydantic import SecretStr

from headgate.app.backends.redis.address import ServerLogin, Tls, read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.settings import Settings


def open_servers(settings: Settings, url: SecretStr) -> RedisBackend:
    return RedisBackend(client_options(settings, url))


def client_options(settings: Settings, url: SecretStr) -> ClientOptions:
    """Return the options of a client; raises ValueError, which does not repeat a wrong URL."""
    password = settings.redis_password
    login = ServerLogin(
        settings.redis_username, None if password is None else password.get_secret_value()
    )
    tls = Tls(settings.redis_tls_ca, settings.redis_tls_cert, settings.redis_tls_key)
    return ClientOptions(
        read_url(url.get_secret_value(), login, tls),
        prefix=settings.redis_prefix.encode(),
        durability=settings.redis_durability,
        answer_ms_max=settings.redis_answer_ms_max,
        keyspace=settings.keyspace_bounds,
        waiters_max=settings.waiters_max,
    )
