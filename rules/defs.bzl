"""The rules of rules_torch_kernels. `driver gen` writes the calls; they can be written by hand as well.

    load("@rules_torch_kernels//rules:defs.bzl", "kernel_bundle", "kernel_device_link", "kernel_id", "kernel_objects", "kernel_triton", "kernel_variant")
"""

load("//rules/private:device_link.bzl", _kernel_device_link = "kernel_device_link")
load("//rules/private:kernel_bundle.bzl", _kernel_bundle = "kernel_bundle")
load("//rules/private:kernel_id.bzl", _kernel_id = "kernel_id")
load("//rules/private:kernel_objects.bzl", _kernel_objects = "kernel_objects")
load("//rules/private:kernel_variant.bzl", _kernel_variant = "kernel_variant")
load("//rules/private:triton.bzl", _kernel_triton = "kernel_triton")

kernel_bundle = _kernel_bundle
kernel_device_link = _kernel_device_link
kernel_id = _kernel_id
kernel_objects = _kernel_objects
kernel_triton = _kernel_triton
kernel_variant = _kernel_variant
