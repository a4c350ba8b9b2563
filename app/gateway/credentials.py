"""Who may connect, according to the settings."""

from headgate.app.auth.credentials import CredentialOptions, Credentials
from headgate.app.auth.grants import ANYBODY, UsageLimits
from headgate.app.auth.tokens.compact import ClaimRules
from headgate.app.auth.tokens.issuer import IssuerChoices
from headgate.app.runtime.siblings import Siblings
from headgate.app.settings import MEMORY, Settings
from headgate.engine.clock import Clock


def open_credentials(
    settings: Settings,
    clock: Clock | None = None,
    *,
    ticket_secret: bytes | None = None,
    siblings: Siblings | None = None,
) -> Credentials:
    """Read the files of the credentials; raises ValueError, which names the faulty one."""
    if ticket_secret is None and settings.ticket_secret is not None:
        ticket_secret = settings.ticket_secret.get_secret_value().encode()
    anonymous = settings.anonymous if settings.allow_anonymous else None
    if settings.allow_anonymous and anonymous is None:
        anonymous = [ANYBODY]
    credentials = Credentials(
        CredentialOptions(
            data_dir=None if settings.data_dir == MEMORY else settings.data_dir,
            keys_file=settings.keys_file,
            issuer=_issuer(settings),
            ticket_secret=ticket_secret,
            anonymous=anonymous,
            opened=["open_metrics"] if settings.open_metrics else [],
            limits=_usage_limits(settings),
            bad_credentials_per_s_max=settings.bad_credentials_per_s_max,
            siblings=siblings,
        ),
        clock,
    )
    credentials.load()
    return credentials


def _issuer(settings: Settings) -> IssuerChoices:
    secret = settings.jwt_secret
    return IssuerChoices(
        secret=None if secret is None else secret.get_secret_value().encode(),
        public_key_file=settings.jwt_public_key_file,
        jwks=settings.jwt_jwks,
        algorithms=settings.jwt_algorithms,
        rules=ClaimRules(
            settings.jwt_audience, settings.jwt_issuer, settings.jwt_leeway_s, settings.jwt_grants
        ),
    )


def _usage_limits(settings: Settings) -> UsageLimits:
    return UsageLimits(
        requests_per_s_max=settings.requests_per_s_max,
        entries_per_s_max=settings.entries_per_s_max,
        bytes_per_s_max=settings.bytes_per_s_max,
        connections_max=settings.principal_connections_max,
        waiters_max=settings.principal_waiters_max,
        subscriptions_max=settings.principal_subscriptions_max,
    )
