"""The addresses for programs: those below `/api/`, and ADK's own."""

from django.urls import include, path

from .adk import routes
from .routes import urls

urlpatterns = [
    path("api/", include((urls(), "api"))),
    *routes.addresses(),
]
