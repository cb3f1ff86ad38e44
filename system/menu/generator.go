package menu

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"loadstone/block/dataset"
	"loadstone/block/random"
)

// DefaultCount is the number of menus of a generated data set unless asked otherwise.
const DefaultCount = 10_000_000

// generatorVersion is part of the fingerprint: raise it when the same seed gives other
// menus or other bytes, so that an old data set is not taken for the new one.
const generatorVersion = 1

// madeUp begins the fingerprint of what a Generator makes.
const madeUp = "menu generator "

// MadeUp reports whether the menus of a data set are a Generator's.
func MadeUp(meta dataset.Meta) bool { return strings.HasPrefix(meta.Fingerprint, madeUp) }

// Generator is the source of an invented data set: the menus of restaurants 1 to count. A
// third are a link, the others have 10 to 19 dishes.
//
// Every menu is a function of the seed and the id alone, in integer arithmetic: any can be
// computed without the others, and every machine gives the same bytes.
type Generator struct {
	seed  uint64
	count int64
}

// NewGenerator returns the data set of the seed with menus 1 to count.
func NewGenerator(seed uint64, count int64) (*Generator, error) {
	if count < 1 || count > dataset.MaxID {
		return nil, fmt.Errorf("generate %d menus: write a number from 1 to %d", count, int64(dataset.MaxID))
	}
	return &Generator{seed, count}, nil
}

// Meta describes the data set.
func (g *Generator) Meta() dataset.Meta {
	return dataset.Meta{
		Origin:      fmt.Sprintf("seed %d, %d menus", g.seed, g.count),
		Fingerprint: fmt.Sprintf(madeUp+"%d, seed %d, count %d", generatorVersion, g.seed, g.count),
		Count:       g.count,
	}
}

// All yields the menus in ascending order of id.
func (g *Generator) All(ctx context.Context) iter.Seq2[Menu, error] {
	return dataset.Generate(ctx, g.count, g.Menu)
}

// Menu computes the menu with the id.
func (g *Generator) Menu(id int64) Menu {
	draw := random.New(g.seed, id)
	m := Menu{ID: id, Currency: DefaultCurrency}
	if draw.Below(3) == 0 {
		m.Link = fmt.Sprintf("https://restaurant-%d.example/menu", id)
		return m
	}
	const fewest, kinds = 10, 10
	m.Dishes = make([]Dish, fewest+draw.Below(kinds))
	for i := range m.Dishes {
		// Courses follow each other as on a card.
		course := &courses[i*len(courses)/len(m.Dishes)]
		m.Dishes[i] = course.dish(&draw)
	}
	return m
}

// dish makes up a dish of the course.
func (c *course) dish(draw *random.Stream) Dish {
	main := c.mains[draw.Popular(len(c.mains))]
	ingredients := []string{sides[draw.Popular(len(sides))]}
	if extra := spices[draw.Below(len(spices))]; draw.Below(2) == 0 {
		ingredients = append(ingredients, extra)
	}
	const step = 25 // prices end in .00, .25, .50 or .75
	return Dish{
		Type: c.meal, SubType: c.part,
		Name:        manners[draw.Below(len(manners))] + " " + main,
		Price:       int64(c.from+draw.Below(c.spread)) * step,
		Ingredients: ingredients,
	}
}

// course is a section of a menu; from and spread are the range of prices in quarters.
type course struct {
	meal, part   string
	from, spread int
	mains        []string
}

var courses = []course{
	{"lunch", "starter", 20, 24, []string{"lentils", "tomatoes", "beetroot", "goat cheese", "mushrooms", "avocado", "shrimps"}},
	{"lunch", "soup", 18, 16, []string{"pumpkin", "chicken broth", "leek", "beans", "sweet corn", "spinach"}},
	{"dinner", "main", 48, 72, []string{"beef", "chicken", "lamb", "salmon", "trout", "tofu", "chickpeas", "pork", "duck", "aubergine", "rice noodles"}},
	{"dinner", "vegetarian", 40, 48, []string{"cauliflower", "paneer", "red lentils", "courgettes", "black beans", "polenta", "gnocchi"}},
	{"dessert", "sweet", 20, 20, []string{"chocolate cake", "apple tart", "mango", "cheesecake", "pears", "figs", "ice cream"}},
}

var (
	manners = []string{"Grilled", "Roasted", "Braised", "Smoked", "Fried", "Baked", "Marinated", "Glazed", "Stuffed", "Poached", "Steamed", "Pickled"}
	sides   = []string{"rice", "injera", "potatoes", "flatbread", "salad", "berries", "honey", "couscous", "cream", "walnuts", "yoghurt", "basil"}
	spices  = []string{"garlic", "ginger", "cumin", "chilli", "coriander", "mint", "cardamom", "thyme", "saffron", "sesame", "lemon", "pepper"}
)
