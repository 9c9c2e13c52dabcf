// Package cuda is the engine that runs forward passes of dense models in bfloat16 on an NVIDIA GPU.
//
// Nothing of CUDA is needed to build it or to start a program that contains it: driver, cuBLASLt and NVRTC are opened by name when an engine is made
// ([Open]), the kernels of package kernels are compiled for the GPU that is there, and the result is kept on disk. A step is compiled once for its number of
// tokens and rows into an array of commands in C memory (program.h), which one call runs; everything that changes from step to step is in
// one structure that is copied to the device before. So the array is plain data, and is captured
// as it is: by a full graph the whole step, by piecewise graphs what lies between the attention calls of its layers.
//
// The algorithm of each product of cuBLASLt is chosen by trying what the library offers, once for a kind of GPU, driver and cuBLASLt: the choices are kept on
// disk, and of the ranks of a host one makes them while the others wait.
package cuda
