package rediscache

import "testing"

func TestBatchTakesKeysUntilItIsFullOrSealed(t *testing.T) {
	t.Parallel()
	var bs batches
	first, _ := bs.join("0")
	for i := 1; i < batchKeys; i++ {
		if b, place := bs.join("more"); b != first || place != i {
			t.Fatalf("key %d has place %d, in the first batch: %v; want place %[1]d in it", i, place, b == first)
		}
	}
	second, place := bs.join("one too many")
	if second == first || place != 0 {
		t.Fatalf("a full batch took another key")
	}
	bs.seal(first) // it is closed already
	if b, place := bs.join("more"); b != second || place != 1 {
		t.Errorf("sealing one batch closed another")
	}
	bs.seal(second)
	if b, place := bs.join("more"); b == second || place != 0 {
		t.Errorf("a sealed batch took another key")
	}
}
