package recipe

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// startVersitygw has the official image's contract: a command of versitygw's arguments, or VGW_BACKEND,
// VGW_BACKEND_ARG, VGW_ARGS and VGW_BACKEND_ARGS, and the variables that versitygw itself reads, such as
// ROOT_ACCESS_KEY. It listens on port 7070 unless --port or VGW_PORT say another one.
//
// The image takes its keys from variables alone, which everybody sees who may look at containers. So the
// entrypoint may be a shell whose script reads them from a file: it finds versitygw on its PATH, as in the image,
// and in VGW_PORT the instance's own address.
func startVersitygw(_ context.Context, in *Instance) (*Process, error) {
	given := in.Service.Environment
	p := &Process{Env: map[string]string{
		"PATH":     filepath.Dir(in.Files["versitygw"]) + ":" + in.Path,
		"VGW_PORT": in.versitygwAddress(given["VGW_PORT"]),
	}}
	if in.Service.Entrypoint != nil {
		p.Command = slices.Concat(in.Service.Entrypoint, in.Service.Arguments)
		return p, nil
	}
	args := strings.Fields(given["VGW_ARGS"])
	for _, name := range []string{"VGW_BACKEND", "VGW_BACKEND_ARG"} {
		if given[name] != "" {
			args = append(args, given[name])
		}
	}
	args = append(args, strings.Fields(given["VGW_BACKEND_ARGS"])...)
	if len(in.Service.Arguments) > 0 {
		args = slices.Clone(in.Service.Arguments) // the first is a backend, or a flag
	}
	for i, arg := range args {
		flag, address, joined := strings.Cut(arg, "=")
		switch {
		case flag != "--port" && flag != "-p":
		case joined:
			args[i] = flag + "=" + in.versitygwAddress(address)
		case i+1 < len(args):
			args[i+1] = in.versitygwAddress(args[i+1])
		}
	}
	p.Command = append([]string{in.Files["versitygw"]}, in.pathFlags(args)...)
	return p, nil
}

// versitygwAddress is the instance's own address with the port of one that versitygw is told, which may be a port alone.
func (in *Instance) versitygwAddress(told string) string {
	if told != "" && !strings.Contains(told, ":") {
		told = ":" + told
	}
	return in.listen(told)
}
