//go:build cgo

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
)

// version is set when the program is built.
var version = "unknown"

// lineVersion is "v" in every line. It changes when a field changes its meaning.
const lineVersion = 1

// library is what is used of the driver's management library.
type library interface {
	Init() nvml.Return
	Shutdown() nvml.Return
	SystemGetDriverVersion() (string, nvml.Return)
	SystemGetCudaDriverVersion() (int, nvml.Return)
	DeviceGetCount() (int, nvml.Return)
	DeviceGetHandleByIndex(index int) (nvml.Device, nvml.Return)
	DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return)
	Extensions() nvml.ExtendedInterface
}

// run is the whole program.
func run(args []string, lib library, stdin io.Reader, stdout, stderr io.Writer) int {
	deadline := flagvalue.Duration(10 * time.Second)
	every := flagvalue.Duration(time.Second)
	count := flagvalue.Count{Value: 1, Low: 1}
	var gpus cli.StringSlice
	var onRequest bool
	// ask calls the driver and gives up on it at the deadline: the call itself cannot be ended.
	ask := func(work func(*json.Encoder) error) error {
		done := make(chan error, 1)
		go func() { done <- use(lib, func() error { return work(json.NewEncoder(stdout)) }) }()
		timer := time.NewTimer(time.Duration(deadline))
		defer timer.Stop()
		select {
		case err := <-done:
			return err
		case <-timer.C:
			return fmt.Errorf("the driver has not answered within %v (--deadline)", time.Duration(deadline))
		}
	}
	limit := &cli.GenericFlag{Name: "deadline", Value: &deadline, Usage: "give up on the driver after `D`"}
	app := &cli.App{
		Name:            "fpmgpu",
		Usage:           "print GPUs as JSON lines",
		UsageText:       "fpmgpu list [--deadline D]\nfpmgpu sample [--gpu UUID]... [--count N] [--every D] [--deadline D]\nfpmgpu sample --on-request",
		Version:         version,
		Writer:          stdout,
		ErrWriter:       stderr,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError:    mistake.Handler,
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "one line for the driver, each GPU and each MIG device", Flags: []cli.Flag{limit}, HideHelpCommand: true,
				OnUsageError: mistake.Handler,
				Action: func(*cli.Context) error {
					return ask(func(out *json.Encoder) error { return list(lib, out) })
				},
			},
			{
				Name: "sample", Usage: "clocks, power, temperature and throttle reasons", HideHelpCommand: true,
				OnUsageError: mistake.Handler,
				Flags: []cli.Flag{limit,
					&cli.StringSliceFlag{Name: "gpu", Destination: &gpus, Usage: "only the GPU with this `UUID`; default all"},
					&cli.GenericFlag{Name: "count", Value: &count, Usage: "`N` samples"},
					&cli.GenericFlag{Name: "every", Value: &every, Usage: "`D` between two samples"},
					&cli.BoolFlag{Name: "on-request", Destination: &onRequest, Usage: "one sample for each line of stdin, which is an id and UUIDs; who asks sets the deadline"}},
				Action: func(c *cli.Context) error {
					if onRequest {
						for _, other := range []string{"gpu", "count", "every", "deadline"} {
							if c.IsSet(other) {
								return exit.AsUsage(fmt.Errorf("--on-request and --%s exclude each other: each line of stdin says what is wanted", other))
							}
						}
						return use(lib, func() error { return answer(lib, stdin, json.NewEncoder(stdout)) })
					}
					// The deadline is for one answer; what is waited for on purpose comes on top.
					deadline += flagvalue.Duration(time.Duration(every) * time.Duration(count.Value-1))
					return ask(func(out *json.Encoder) error {
						return samples(lib, out, gpus.Value(), count.Value, time.Duration(every))
					})
				},
			},
		},
		Action: func(*cli.Context) error { return exit.AsUsage(errors.New("type fpmgpu list or fpmgpu sample")) },
	}
	return exit.Report(stderr, app.Name, app.Run(args))
}

// use does work with the library open.
func use(lib library, work func() error) error {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("NVIDIA's management library: %s", explain(ret))
	}
	err := work()
	if ret := lib.Shutdown(); ret != nvml.SUCCESS {
		err = errors.Join(err, fmt.Errorf("shut the driver's library down: %s", explain(ret)))
	}
	return err
}

// explain says what a status of the library means, also where the library itself is missing.
func explain(ret nvml.Return) string {
	if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
		return "libnvidia-ml.so.1 is not installed: there is no NVIDIA driver on this machine, or this container was started without it"
	}
	return ret.Error()
}
