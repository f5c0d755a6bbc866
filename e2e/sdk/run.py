"""Makes the image with Python, then runs the tests: `run.py DOCKER_HOST BASE_IMAGE`."""

import os
import sys

import python_image

if __name__ == "__main__":
    host, base = sys.argv[1:]
    tag = "openshell-dev/python:1"
    python_image.build(["docker", "-H", host], base, tag)
    os.environ["OPENSHELL_SDK_IMAGE"] = base
    os.environ["OPENSHELL_SDK_PYTHON_IMAGE"] = tag
    tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_published_client.py")
    os.execv(sys.executable, [sys.executable, "-B", tests])
