"""How the builds of one torch version are told apart."""

# Behind the version in the setting `torch`, as in torch's own local versions (`2.13.0+rocm7.2`).
ROCM_BUILD = "+rocm"
