// Calls the kernel on the device of a tensor, with the current stream there.
template <class Call>
void call(const at::Tensor& tensor, Call function) {
[% if cpu %]
#ifdef CPU_KERNEL
  at::get_num_threads();  // gives OpenMP in this thread the number that torch.set_num_threads was given in another one
  function(nullptr);
[% endif %]
[% if cpu and gpu %]
#else
[% endif %]
[% if gpu %]
  const c10::cuda::CUDAGuard guard(tensor.device());
  C10_CUDA_CHECK(static_cast<cudaError_t>(function(c10::cuda::getCurrentCUDAStream().stream())));
[% endif %]
[% if cpu %]
#endif
[% endif %]
}
