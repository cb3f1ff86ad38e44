package generator

import (
	"slices"

	"loadstone/lab/load"
	"loadstone/lab/load/rpc"
)

// Files are the paths of the files that a generator reads for a plan, each once: those that
// .proto files import are among them.
func Files(p *load.Plan) ([]string, error) {
	sources, err := rpc.Sources(p.Protos)
	if err != nil {
		return nil, err
	}
	all := append(p.Files(), sources...)
	slices.Sort(all)
	return slices.Compact(all), nil
}
