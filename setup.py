from setuptools import setup
setup(name="ftm", version="0.1.0", packages=["ftm_backend"], package_dir={"ftm_backend": "backend"})
