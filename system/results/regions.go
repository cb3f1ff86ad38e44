package results

// regions of the generated students, with the population in thousands, in round
// figures, and towns or quarters that name schools.
var regions = [...]struct {
	name       string
	population int
	towns      []string
}{
	{"Oromia", 39000, []string{
		"Adama", "Jimma", "Bishoftu", "Shashemene", "Nekemte", "Asella", "Ambo", "Bale Robe", "Goba",
		"Chiro", "Metu", "Fiche", "Dodola", "Batu", "Sebeta", "Burayu", "Holeta", "Gimbi", "Shambu",
		"Dembi Dolo", "Bedele", "Agaro", "Woliso", "Moyale", "Bule Hora",
	}},
	{"Amhara", 22900, []string{
		"Bahir Dar", "Gondar", "Dessie", "Debre Markos", "Debre Birhan", "Kombolcha", "Woldia",
		"Debre Tabor", "Finote Selam", "Injibara", "Dangila", "Mota", "Bichena", "Kemise", "Lalibela",
		"Sekota",
	}},
	{"Addis Ababa", 4000, []string{
		"Bole", "Arada", "Yeka", "Kirkos", "Lideta", "Gulele", "Kolfe", "Akaki", "Nifas-Silk",
		"Addis Ketema", "Lemi Kura",
	}},
	{"South Ethiopia", 8000, []string{
		"Wolaita Sodo", "Arba Minch", "Dilla", "Jinka", "Boditi", "Areka", "Sawla", "Konso",
	}},
	{"Somali", 6700, []string{
		"Jijiga", "Gode", "Kebri Dahar", "Degehabur", "Warder", "Filtu",
	}},
	{"Central Ethiopia", 6600, []string{
		"Hosaena", "Worabe", "Butajira", "Durame", "Welkite", "Halaba",
	}},
	{"Tigray", 5800, []string{
		"Mekelle", "Axum", "Adigrat", "Shire", "Adwa", "Wukro", "Maychew", "Humera",
	}},
	{"Sidama", 4700, []string{
		"Hawassa", "Yirgalem", "Aleta Wendo", "Bensa", "Leku",
	}},
	{"South West Ethiopia", 3500, []string{
		"Bonga", "Mizan Teferi", "Tepi", "Tercha", "Masha",
	}},
	{"Afar", 2100, []string{
		"Semera", "Logiya", "Asaita", "Awash", "Dubti",
	}},
	{"Benishangul-Gumuz", 1250, []string{
		"Assosa", "Metekel", "Kamashi", "Bambasi", "Pawe",
	}},
	{"Dire Dawa", 560, []string{
		"Sabian", "Kezira", "Megala", "Legehare",
	}},
	{"Gambela", 530, []string{
		"Gambela", "Itang", "Abobo", "Metti",
	}},
	{"Harari", 290, []string{
		"Jugol", "Shenkor", "Amir Nur",
	}},
}

// schoolKinds end a school's name.
var schoolKinds = []string{
	"Secondary School", "Preparatory School", "General Secondary School", "Secondary School",
	"Comprehensive Secondary School",
}

// schoolPatrons tell the schools of a town apart.
var schoolPatrons = []string{
	"Millennium", "Selam", "Fana", "Andinet", "Biruh Tesfa", "Edget", "Hibret", "Addis Hiwot", "Ewket",
	"Felege Hiwot", "Tsehay", "Abay", "Ras Desta", "Nigat", "Kokeb", "Birhan", "Netsanet", "Lucy", "Gada",
	"Africa", "Hayole", "Meskerem", "Limat", "Genet", "Tana",
}
