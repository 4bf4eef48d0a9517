"""Routes every address to sessions_app."""

from django.urls import include, path

urlpatterns = [path("", include("sessions_app.api.urls")), path("", include("sessions_app.web.urls"))]
handler400 = "sessions_app.web.errors.bad_request"
handler404 = "sessions_app.web.errors.not_found"
handler500 = "sessions_app.web.errors.server_error"
