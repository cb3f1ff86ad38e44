package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strings"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// wire stands for the form of calls and answers. Of another one fields would be missing,
// which in JSON are as good as 0, and a lab would believe that.
var wire = wireOf(Hello{}, Wanted{}, Found{}, Change{}, Signal{}, cgroup.Signalled{}, host.Sample{}, time.Time{})

func wireOf(all ...any) string {
	var b strings.Builder
	for _, v := range all {
		form(&b, reflect.TypeOf(v))
	}
	const enough = 8
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:enough])
}

// form writes down a type by its fields. None of those on the wire contains itself.
func form(b *strings.Builder, t reflect.Type) {
	b.WriteString(t.Kind().String())
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Array:
		form(b, t.Elem())
	case reflect.Map:
		form(b, t.Key())
		form(b, t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				b.WriteString(" " + f.Name + " " + f.Tag.Get("json") + " ")
				form(b, f.Type)
			}
		}
	default: // nothing is in it
	}
}
