"""Django's management commands for a checkout: `python manage.py <command>`."""

from adkweb.cli import manage

if __name__ == "__main__":
    manage()
