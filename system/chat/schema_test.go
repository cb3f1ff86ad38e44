package chat

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"loadstone/system/chat/contracttest"
)

// schema compiles one of the contract, with those that it refers to.
func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	for _, file := range []string{"message.schema.json", "send.schema.json", "told.schema.json", "request.schema.json"} {
		text, err := os.ReadFile(filepath.Join("contract", file))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = c.AddResource(file, doc)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, wire string) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(wire)))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// schemas are the files of the contract that have one.
var schemas = map[string]string{
	"messages.jsonl": "message.schema.json", "sends.jsonl": "send.schema.json", "requests.jsonl": "request.schema.json",
	"told.jsonl": "told.schema.json", "room.jsonl": "told.schema.json", "analysis.jsonl": "told.schema.json",
}

// The schemas take the records that are read, and refuse those that are not.
func TestSchemasAgreeWithTheRecords(t *testing.T) {
	t.Parallel()
	for file, name := range schemas {
		s := schema(t, name)
		for _, r := range contracttest.Records[record](t, "contract/"+file) {
			read := r.Error == "" && (file != "messages.jsonl" || r.Message != nil)
			if err := validate(s, r.Wire); (err == nil) != (read || r.BeyondSchema) || read && r.BeyondSchema {
				t.Errorf("%s: %s: the schema says %v: make contract/%s and the record agree", file, r.Name, err, name)
			}
		}
	}
}

// Each member of each record is needed but for a few, and no other type will do.
func TestSchemasRefuseDamagedRecords(t *testing.T) {
	t.Parallel()
	optional := map[string]bool{"mentions": true, "seconds": true, "reason": true}
	for file, name := range schemas {
		s := schema(t, name)
		for _, r := range contracttest.Records[record](t, "contract/"+file) {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(r.Wire)))
			members, ok := doc.(map[string]any)
			if err != nil || !ok || s.Validate(doc) != nil || r.Name == "unknown_members" {
				continue
			}
			for member := range members {
				damaged := maps.Clone(members)
				delete(damaged, member)
				if may := optional[member] && (member != "seconds" || members["action"] != "timeout") || member == "role" && members["type"] == "joined" || member == "offset" && members["type"] == "ack"; s.Validate(damaged) == nil != may {
					t.Errorf("%s: %s is taken without %s: %v, want %v", file, r.Name, member, !may, may)
				}
				damaged[member] = 0.5
				if s.Validate(damaged) == nil {
					t.Errorf("%s: %s is taken with a fraction as %s", file, r.Name, member)
				}
			}
		}
	}
}
