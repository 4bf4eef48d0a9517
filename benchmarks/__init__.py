"""How fast adkweb is, beside google-adk in the same run: one subject in each module, and what they share in `harness`.

    make bench                             # most of them
    python -m benchmarks.search            # one
    SIZE=0.01 python -m benchmarks.search  # everything a hundredth as large, to try it

Django is set up here, so that modules can import anything; each process has a data directory that is thrown away.
"""

import logging
import multiprocessing
import os
import warnings

import django

warnings.simplefilter("ignore")  # google-adk says much about itself
if multiprocessing.current_process().name == "MainProcess":  # a worker's is made by whoever starts it
    os.environ.pop("ADKWEB_DATA_DIR", None)
os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "DJANGO_ALLOW_ASYNC_UNSAFE": "1"}
django.setup()
logging.disable(logging.CRITICAL)
