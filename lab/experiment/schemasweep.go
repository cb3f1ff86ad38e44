package experiment

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/invopop/jsonschema"
)

// sweep grows one service by one setting.
func (g *generator) sweep() *jsonschema.Schema {
	s := g.full(reflect.TypeFor[Sweep]())
	exactlyOne(s, keyReplicas, keyCPUs)
	service, _ := s.Properties.Get("service")
	service.Pattern = nonEmpty
	fewest, most := uint64(minSizes), uint64(maxSizes)
	sizes := func(key string, least, highest json.Number) {
		p, _ := s.Properties.Get(key)
		p.MinItems, p.MaxItems, p.UniqueItems = &fewest, &most, true
		p.Items.Minimum, p.Items.Maximum = least, highest
	}
	sizes(keyReplicas, "1", json.Number(strconv.Itoa(maxReplicas)))
	sizes(keyCPUs, json.Number(strconv.FormatFloat(minCPUs, 'f', -1, 64)), json.Number(strconv.Itoa(maxCPUs)))
	carry, _ := s.Properties.Get("carry")
	carry.AnyOf, carry.Type, carry.Pattern = nil, "string", ratePattern
	carry.Not = &jsonschema.Schema{Pattern: `^0+(\.0+)?/`}
	return s
}
