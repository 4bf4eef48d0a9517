"""Django's entry: registers the sources that the environment names."""

from django.apps import AppConfig
from django.conf import settings


class SessionsConfig(AppConfig):
    """The one application of adkweb."""

    name = "sessions_app"

    def ready(self) -> None:
        """Names the sources; they are opened when first needed."""
        from . import sources

        for text in settings.SOURCES:
            sources.add(text)
